"""Tests of the recorder that are not for programs on a device, and why: classes, or tests of classes."""

BY_NUMPY = "numpy writes the memory, which lies on the processor"
KINDS = "the test device has no sparse, quantized or nested tensors"
DLPACK = "the framework exports memory of devices that it knows alone"
PROCESS = "the program is started where the device's folder is not known"
COLLECTIVES = "the framework has no collectives for it"
THREADS = "what a thread of the program makes lies on the processor: the default device is one thread's"
AUTOCAST = "the program names the processor"

ELSEWHERE = {
    "ChangedOutside.test_input_buffer_refilled_through_numpy": BY_NUMPY,
    "ChangedOutside.test_state_changed_through_numpy": BY_NUMPY,
    "ComingBack.test_values_that_come_back_within_an_iteration": BY_NUMPY,
    "Entering.test_numpy_writes_a_state": BY_NUMPY,
    "Entering.test_numpy_writes_an_input": BY_NUMPY,
    "Entering.test_outside_changes_are_counted": BY_NUMPY,
    "Input.test_said_by_the_program": PROCESS,
    "Input.test_two_pauses_one_after_the_other": PROCESS,
    "Observers.test_draws_errors_autocast_and_transforms": AUTOCAST,
    "Paths.test_kinds_of_arguments": KINDS,
    "Paths.test_typed_boxed_and_per_op_are_equal": KINDS,
    "Places.test_frames_through_the_public_api": "its program begins with lines of its own",
    "Places.test_module_site_and_phase": "it asks for one thread, and a device's backward pass has its own",
    "RaisingProgram.test_model_freed_on_the_way_out": "its program begins with lines of its own",
    "Refusals.test_isolated_interpreter": PROCESS,
    "Separate.test_11_collectives_and_marks": COLLECTIVES,
    "Separate.test_13_tensors_without_a_storage": KINDS,
    "Threads.test_threads_that_only_bring_data_are_not_told": THREADS,
    "Ways": DLPACK,
}
