"""The results of `ci/gpu` as a table and as a Markdown section for docs/performance.md. What was not run is written as
unmeasured."""

import json


def print_table(results):
    if not results:
        return
    width = max(len(result["part"]) for result in results)
    for result in results:
        print(f"{result['part']:<{width}}  {result['verdict']:<6}  {result['seconds']:8.1f} s  {result['words']}")


def read_results(folder, names):
    """{part: its result}, of those that have one."""
    found = {}
    for name in names:
        try:
            found[name] = json.loads((folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            pass
    return found


def cells(*values):
    return "| " + " | ".join(str(value).replace("|", "\\|").replace("\n", " ") for value in values) + " |"


def milliseconds(value):
    return "-" if value is None else f"{value / 1e6:.3f}"


def replay_lines(rows):
    """One line per recording: in each column whether fast was verified, and the first digits of the strict hash."""
    columns = list(dict.fromkeys(row["backend"] for row in rows))
    lines = ["", cells("recording", *columns, "strict"), cells(*["---"] * (len(columns) + 2))]
    keys = dict.fromkeys((row["example"], row["precision"], row["recorded_on"]) for row in rows)
    for key in keys:
        of = {(row["backend"], row["numerics"]): row
              for row in rows
              if (row["example"], row["precision"], row["recorded_on"]) == key}
        hashes = {row["sha256"] for (_, mode), row in of.items() if mode == "strict" and row["sha256"]}
        line = []
        for column in columns:
            fast, strict = of.get((column, "fast"), {}), of.get((column, "strict"), {})
            line.append(
                f"{'verified' if fast.get('verified') else 'NO'}, {strict.get('sha256', '')[:8] or '-'}{'' if strict.get('verified') else ' NO'}"
            )
        lines.append(
            cells(f"{key[0]}, {key[1]}, of {key[2]}", *line, "same bits" if len(hashes) == 1 else "BITS DIFFER"))
    return lines


def bench_lines(rows):
    lines = [
        "",
        cells("example", "precision", "who", "median ms", "quartiles", "ratio", "compile s", "J an iteration",
              "verdict"),
        cells(*["---"] * 9)
    ]
    for row in rows:
        quartiles = "-" if row["quartiles_ns"] is None else " .. ".join(
            milliseconds(value) for value in row["quartiles_ns"])
        verdict = row["reason"] or row["note"] or ("verified, emulated" if row["emulated"] else "verified")
        lines.append(
            cells(row["example"], row["precision"], row["backend"], milliseconds(row["median_ns"]), quartiles,
                  "-" if row["ratio"] is None else f"{row['ratio']:.3g}",
                  f"{row['compile_ns'] / 1e9:.1f}" if row["compile_ns"] else "-",
                  "-" if row["joules"] is None else f"{row['joules']:.3g}", verdict))
    return lines


def products_lines(rows):
    lines = ["", cells("example", "precision", "products by", "median ms an iteration"), cells(*["---"] * 4)]
    return lines + [cells(row["example"], row["precision"], row["who"], milliseconds(row["median_ns"])) for row in rows]


def counters_lines(rows):
    names = list(rows[0]["values"])
    lines = ["", cells("example", "precision", *names), cells(*["---"] * (2 + len(names)))]
    return lines + [cells(row["example"], row["precision"], *row["values"].values()) for row in rows]


def record_lines(rows):
    rows = [row for row in rows if "item" in row]
    if not rows:
        return []
    lines = ["", cells("program recorded on the device", "verdict", "what"), cells(*["---"] * 3)]
    return lines + [cells(row["item"], row["verdict"], row["reason"]) for row in rows]


def number(value, digits=1):
    return "unmeasured" if value is None else f"{value:.{digits}f}"


def model_lines(rows):
    """Totals of each recording, and of each the kernels that are farthest from the model."""
    lines = [
        "", "Kernels on the device beside the model of an H100 (`tests/emulators/ptx/warp_model.hpp`): measured over "
        "modelled time, every step a kernel of ours, by itself.", "",
        cells("example", "precision", "launches", "modelled us", "measured us", "bound us", "kernels", "measured",
              "median ratio", "by what the model waits for", "timed by"),
        cells(*["---"] * 11)
    ]
    for row in rows:
        terms = ", ".join(f"{why} {ratio:.2f} ({count})" for why, (count, ratio) in row["by_term"].items())
        lines.append(
            cells(row["example"], row["precision"], f"{row['launches']:g}", number(row["modelled_us"]),
                  number(row["measured_us"]), number(row["bound_us"]), row["kernels"], row["measured"],
                  number(row["median_ratio"], 2), terms or "unmeasured", row["times"]))
    lines += [
        "", "The worst ten of each: those farthest from the model, or, unmeasured, those that take longest.", "",
        cells("example", "precision", "kernel", "grid, block", "launches", "modelled us", "waits for", "measured us",
              "ratio", "ops"),
        cells(*["---"] * 10)
    ]
    for row in rows:
        for kernel in row["worst"]:
            shape = ", ".join("x".join(str(n) for n in size if n != 1) or "1"
                              for size in (kernel["grid"], kernel["block"]))
            lines.append(
                cells(row["example"], row["precision"], kernel["kernel"], shape, f"{kernel['launches']:g}",
                      number(kernel["modelled_us"], 2), kernel["why"], number(kernel["measured_us"], 2),
                      number(kernel["ratio"], 2), " ".join(kernel["ops"])[:60] or "?"))
    return lines


def claims_lines(rows):
    answers = [row for row in rows if "who" in row]
    lines = [
        "", "Steps that a library takes, of those that have a step of their own:", "",
        cells("example", "precision", "who answers", "products", "convolutions", "attentions",
              "cuDNN's engines, x shapes"),
        cells(*["---"] * 7)
    ]
    for row in answers:
        if row["reason"]:
            lines.append(cells(row["example"], row["precision"], row["who"], row["reason"], "-", "-", "-"))
            continue
        counts = [f"{row[kind][0]} of {row[kind][1]}" if kind in row else "not asked"
                  for kind in ("products", "convolutions", "attentions")]
        engines = "; ".join(f"{name} x{count}" for name, count in row["engines"].items())
        lines.append(cells(row["example"], row["precision"], row["who"], *counts, engines or "not told"))
    lines += ["", cells("example", "precision", "measure_products", "median ms an iteration"), cells(*["---"] * 4)]
    for row in rows:
        if "measure_products" in row:
            lines.append(
                cells(row["example"], row["precision"], row["measure_products"],
                      row["reason"] or milliseconds(row["median_ns"])))
    return lines


def batches_lines(rows):
    lines = [
        "",
        cells("example", "precision", "batches", "launches", "nodes", "longest path", "median ms an iteration",
              "strict"),
        cells(*["---"] * 8)
    ]
    for row in rows:
        facts = ["-" if row[name] is None else row[name] for name in ("launches", "nodes", "longest_path")]
        lines.append(
            cells(row["example"], row["precision"], row["batches"], *facts, milliseconds(row["median_ns"]),
                  row["sha256"][:8]))
    return lines


FORMS = {
    "record": record_lines, "replay": replay_lines, "model": model_lines, "claims": claims_lines,
    "counters": counters_lines, "batches": batches_lines, "products": products_lines, "bench": bench_lines
}


def report(results, names, same=None):
    """`same`: of which parts the result is of the inputs that are here now; None: of all."""
    about = results.get("device", {}).get("data", {}).get("about", {})
    title = about.get("device", "an NVIDIA GPU whose name was not asked")
    lines = [
        f"## {title}", "",
        "`ci/gpu`" + "".join(f", {key} {value}" for key, value in about.items() if key != "device") + ".", ""
    ]
    if any(result.get("rehearsal") for result in results.values()):
        lines += ["**A rehearsal without a GPU: no figure here is a GPU's.**", ""]
    lines += [cells("part", "verdict", "seconds", "what"), cells(*["---"] * 4)]
    for name in names:
        result = results.get(name)
        if not result:
            lines.append(cells(name, "not run", "-", "unmeasured"))
            continue
        words = result["words"] if same is None or same[name] else "with other inputs: " + result["words"]
        lines.append(cells(name, result["verdict"], result["seconds"], words))
    for name, form in FORMS.items():
        rows = results.get(name, {}).get("data", {}).get("rows", [])
        lines += ["", f"### {name}"]
        if rows:
            lines += form(rows)
        elif name in results and results[name]["verdict"] == "passed":
            lines += ["", results[name]["words"]]
        else:
            lines += ["", "Unmeasured" + (f": {results[name]['words']}" if name in results else ".")]
    return "\n".join(lines) + "\n"


def write_report(folder, names, same=None):
    """The path of the file, made of what all parts left in the folder."""
    place = folder / "report.md"
    place.write_text(report(read_results(folder, names), names, same))
    return place
