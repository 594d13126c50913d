"""Storages over several iterations: what is carried, what enters, what was changed behind the recorder's back."""

import unittest

from support import LOOP, RecorderTest, floats


def loop_with(code, before=""):
    """LOOP with `code` at the end of each step's forward part (it sees `step`) and `before` ahead of the loop."""
    indented = "".join(f"    {line}\n" for line in code.strip("\n").splitlines())
    return LOOP.replace("for step in range(10):\n", before + "\nfor step in range(10):\n").replace(
        "    loss.backward()\n", indented + "    loss.backward()\n")


class Strides(RecorderTest):
    def test_rows_with_a_pitch_are_not_dense(self):
        trace = self.recorded(loop_with("torch.ones(3, 4)[:, :2].tan()\ntorch.ones(6)[::2].tan()"))
        rows, column = trace.ops_named("aten::tan", 0)
        self.assertEqual(trace.tensor(rows["args"][0])["strides"], [4, 1])
        self.assertEqual(trace.tensor(column["args"][0])["strides"], [2])


class Carried(RecorderTest):
    def test_state_enters_once(self):
        trace = self.recorded(LOOP, options=("--iterations", "3"))
        weights = [external for external in trace.externals if external["name"] == "0.weight"]
        self.assertEqual([external["iteration"] for external in weights], [0])
        storage = weights[0]["storage"]
        for iteration in range(3):
            read = [op for op in trace.ops_named("aten::t", iteration) if trace.storage(op["args"][0]) == storage]
            self.assertTrue(read, "the parameter keeps its id in every iteration")

    def test_optimizer_state_is_named(self):
        program = LOOP.replace("torch.optim.SGD(model.parameters(), lr=0.1)",
                               "torch.optim.AdamW(model.parameters(), lr=0.1)")
        trace = self.recorded(program)
        names = {external["name"]: external["role"] for external in trace.externals if external["role"] == 3}
        for key in ("step", "exp_avg", "exp_avg_sq"):
            self.assertEqual(names[f"{key} of 0.weight"], 3)
        self.assertEqual({state["name"] for state in trace.final_states if state["role"] == 3}, set(names))

    def test_state_made_while_recording(self):
        program = LOOP.replace("torch.optim.SGD(model.parameters(), lr=0.1)",
                               "torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)")
        trace = self.recorded(
            program.replace("    optimizer.step()", "    if step == 3: optimizer.state.clear()\n    optimizer.step()"),
            options=("--iterations", "3"))
        final = [state["name"] for state in trace.final_states if state["role"] == 3]
        self.assertIn("momentum_buffer of 0.weight", final)

    def test_gradients_that_stay(self):
        program = LOOP.replace("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)")
        trace = self.recorded(program)
        grads = [external for external in trace.externals if external["name"].startswith("grad of ")]
        self.assertEqual({external["iteration"] for external in grads}, {0})

    def test_buffers(self):
        trace = self.recorded("""
            import torch
            model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(6):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
        """)
        final = {state["name"]: state for state in trace.final_states}
        start = {external["name"]: external for external in trace.externals if external["name"]}
        for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
            self.assertEqual((start[name]["role"], final[name]["role"]), (2, 2))
            self.assertNotEqual(start[name]["blob"]["hash"], final[name]["blob"]["hash"])

    def test_tied_parameters_have_one_storage(self):
        program = LOOP.replace(
            "optimizer = torch",
            "model[2] = torch.nn.Linear(3, 3)\nmodel.append(torch.nn.Linear(3, 3))\nmodel[3].weight = model[2].weight\noptimizer = torch"
        )
        trace = self.recorded(program)
        self.assertIn("2.weight", {external["name"] for external in trace.externals})
        self.assertNotIn("3.weight", {external["name"] for external in trace.externals})

    def test_two_models(self):
        program = LOOP.replace("optimizer = torch", "other = torch.nn.Linear(1, 1)\noptimizer = torch").replace(
            "loss = model(data[step])", "loss = other(model(data[step]))")
        trace = self.recorded(program)
        names = {external["name"] for external in trace.externals if external["role"] == 1}
        self.assertTrue({"0.weight", "Linear.weight"} <= names, names)


class ChangedOutside(RecorderTest):
    def test_input_buffer_refilled_through_numpy(self):
        program = LOOP.replace(
            "for step in range(10):\n",
            "import numpy\narray = numpy.zeros((5, 4), 'float32')\nbatch = torch.from_numpy(array)\nfor step in range(10):\n    array[:] = step\n"
        )
        trace = self.recorded(program.replace("data[step]", "batch"), options=("--iterations", "3"))
        entered = [external for external in trace.externals if external["blob"]["size"] == 80]
        self.assertEqual([(external["iteration"], floats(external["blob"])[0]) for external in entered], [(0, 2.0),
                                                                                                          (1, 3.0),
                                                                                                          (2, 4.0)])
        self.assertEqual(len({external["storage"] for external in entered}), 1)
        self.assertEqual([item["count"] for item in trace.not_recorded if "not an op" in item["what"]], [2])

    def test_unchanged_input_enters_once(self):
        trace = self.recorded(LOOP.replace("data[step]", "data[0]"), options=("--iterations", "3"))
        entered = [external for external in trace.externals if external["blob"]["size"] == 80]
        self.assertEqual([external["iteration"] for external in entered], [0])
        self.assertEqual(trace.not_recorded, [])

    def test_state_changed_through_numpy(self):
        program = LOOP.replace("for step in range(10):\n",
                               "array = model[2].bias.detach().numpy()\nfor step in range(10):\n    array[:] = step\n")
        trace = self.recorded(program, options=("--iterations", "3"))
        entered = [(external["iteration"], floats(external["blob"]))
                   for external in trace.externals
                   if external["name"] == "2.bias"]
        self.assertEqual(entered, [(0, [2.0]), (1, [3.0]), (2, [4.0])])

    def test_storage_copied_into(self):
        code = "t = torch.zeros(3)\nt.untyped_storage().copy_(torch.ones(3).untyped_storage())\nt.tan()"
        trace = self.recorded(loop_with(code))
        target = trace.storage(trace.one("aten::tan")["args"][0])
        written = [op for op in trace.ops_named("aten::copy_", 0) if trace.storage(op["args"][0]) == target]
        self.assertEqual(len(written), 1, "an op on the bytes of the storage")


if __name__ == "__main__":
    unittest.main(verbosity=2)
