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


def report(results, names):
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
        lines.append(
            cells(name, result["verdict"], result["seconds"], result["words"]
                 ) if result else cells(name, "not run", "-", "unmeasured"))
    for name, form in (("replay", replay_lines), ("bench", bench_lines), ("products", products_lines),
                       ("counters", counters_lines)):
        rows = results.get(name, {}).get("data", {}).get("rows", [])
        if rows:
            lines += form(rows)
    return "\n".join(lines) + "\n"


def write_report(folder, names):
    """The path of the file, made of what all parts left in the folder."""
    place = folder / "report.md"
    place.write_text(report(read_results(folder, names), names))
    return place
