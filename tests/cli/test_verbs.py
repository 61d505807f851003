from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from partita.cli.app import app

VERBS = (
    "inspect",
    "plan",
    "explain",
    "compile",
    "run",
    "compare",
    "bench",
    "backends",
    "doctor",
    "demo",
)
EXACT = ("--backend", "exact")
Chain = Callable[..., Path]


def test_the_verbs_are_these(partita: Any) -> None:
    assert tuple(c.name or c.callback.__name__ for c in app.registered_commands) == VERBS
    text = partita("--help").stdout
    assert all(re.search(rf"^  {verb} ", text, re.MULTILINE) for verb in VERBS)
    assert "0 fine, 1 mismatch" in text


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(partita: Any, verb: str) -> None:
    text = partita(verb, "--help").stdout
    assert "--json" in text
    assert "--quiet" in text


def test_version_and_no_verb(partita: Any) -> None:
    assert re.fullmatch(r"partita \d+\.\d+\.\d+\n", partita("--version").stdout)
    assert partita().stdout == partita("--help").stdout


# inspect


def test_inspect_counts_what_a_model_holds(partita: Any, digits_model: Path) -> None:
    found = partita.json("inspect", digits_model)
    stored = onnx.load(digits_model)
    assert found["nodes"] == sum(op["nodes"] for op in found["ops"])
    assert {i["name"] for i in found["inputs"]} == {i.name for i in stored.graph.input}
    assert {o["name"] for o in found["outputs"]} == {o.name for o in stored.graph.output}
    assert found["parameters"]["elements"] > 10_000
    assert found["open_dimensions"] == ["batch"]
    assert len(found["hash"]) == 64


def test_inspect_counts_the_work_once_sizes_are_settled(partita: Any, digits_model: Path) -> None:
    assert (
        "sizes left open: batch; --dim NAME=N settles them"
        in partita("inspect", digits_model).stdout
    )
    one, four = (partita.json("inspect", digits_model, "--dim", f"batch={n}") for n in (1, 4))
    assert one["unknown_costs"] == one["unknown_shapes"] == 0
    assert four["flops"] == 4 * one["flops"] > 4_000
    result = partita("inspect", digits_model, "--dim", "bacth=1", code=2)
    assert "did you mean 'batch'?" in result.stderr


def test_inspect_speaks_of_unknown_costs_and_shapes(partita: Any, chain: Chain) -> None:
    text = partita("inspect", chain("Relu", "Softmax")).stdout
    assert "Relu" in text
    assert re.search(r"x +float32 +\[batch, 3\]", text)
    assert re.search(r"values of unknown size +2", text)


# plan


def test_plan_says_where_everything_goes(partita: Any, chain: Chain, library: Path) -> None:
    result = partita("plan", chain("Relu", "Softmax", "Neg"), "--library", library, *EXACT)
    assert result.stderr == (
        "partita: exact 2 of 3 nodes in 2 regions; host 1 node (Softmax 1: Softmax has no kernel)\n"
    )
    assert "exact: Softmax has no kernel" in result.stdout
    assert "\x1b" not in result.stdout


def test_plan_document_holds_the_plan_file(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    words = ("plan", chain("Relu", "Softmax"), "--library", library, *EXACT, "-o", file)
    found = partita.json(*words)
    assert found["plan"] == json.loads(file.read_text())
    assert found["files"] == [str(file)]
    assert found["placement"].startswith("partita: exact 1 of 2 nodes")


def test_a_plan_file_is_applied_and_compared(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    file, model = tmp_path / "plan.json", chain("Relu", "Softmax", "Neg")
    partita("plan", model, "--library", library, *EXACT, "--exclude-op", "Neg", "-o", file)
    again = partita.json("plan", model, "--library", library, "--plan", file)
    assert again["plan"]["host"] == {"softmax_1": "Softmax", "neg_2": "Neg"}
    assert again["mismatches"] == []
    changed = partita.json("plan", model, "--library", library, *EXACT, "--diff", file)
    assert changed["diff"]["moved"] == [["neg_2", "host", "exact"]]
    assert changed["diff"]["changed"] is True
    text = partita("plan", model, "--library", library, *EXACT, "--diff", file).stdout
    assert "neg_2: host → exact" in text


@pytest.mark.engine("onnxruntime")
def test_the_edit_in_the_documentation_works(
    partita: Any, digits_model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "digits.plan.json"
    words = ("plan", digits_model, "-b", "onnxruntime", "--exclude-op", "Add")
    plan = partita.json(*words, "-o", file)["plan"]
    plan["host"]["softmax"] = plan["regions"][2]["nodes"].pop("softmax")
    file.write_text(json.dumps(plan))
    line = partita("plan", digits_model, "--plan", file).stderr
    page = (Path(__file__).resolve().parents[2] / "docs" / "plan-file.md").read_text()
    assert line in page


def test_a_plan_file_for_another_model_says_what_no_longer_fits(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    partita("plan", chain("Relu", "Neg"), "--library", library, *EXACT, "-o", file)
    other = chain("Relu", "Neg", *["Softmax"] * 7, file="other.onnx")
    result = partita("plan", other, "--library", library, "--plan", file)
    assert "node 'softmax_2' (Softmax) is not in the plan" in result.stderr
    assert "… 2 more; see partita plan MODEL --plan" in result.stderr
    assert "the plan file does not fit the model in 7 places" in result.stderr


def test_plan_excludes_what_a_plan_file_decides(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    file, model = tmp_path / "plan.json", chain("Relu")
    partita("plan", model, "--library", library, *EXACT, "-o", file)
    result = partita("plan", model, "--plan", file, "--exclude-op", "Relu", code=2)
    assert "--exclude-op and --plan exclude each other" in result.stderr


def test_a_report_and_a_partitioned_model_are_written(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    html, applied = tmp_path / "plan.html", tmp_path / "applied.onnx"
    model = chain("Relu", "Softmax")
    partita("plan", model, "--library", library, *EXACT, "--html", html, "--apply", applied)
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert [f.domain for f in onnx.load(applied).functions] == ["partita"]


def test_full_coverage_may_be_required(partita: Any, chain: Chain, library: Path) -> None:
    model = chain("Relu", "Softmax")
    words = ("--library", library, *EXACT, "--require-full-coverage")
    found = partita.json("plan", model, *words, code=1)
    assert found["plan"]["host"] == {"softmax_1": "Softmax"}
    for verb in ("compile", "run"):
        result = partita(verb, model, *words, code=1)
        assert "--require-full-coverage is not met: exact 1 of 2 nodes" in result.stderr
        assert result.stdout == ""
    partita("plan", chain("Relu", file="whole.onnx"), *words)


def test_full_coverage_is_not_met_by_a_region_that_falls_to_the_host(
    partita: Any, chain: Chain, library: Path
) -> None:
    words = ("--library", library, "--backend", "failing", "--require-full-coverage")
    result = partita("compile", chain("Relu"), *words, code=1)
    assert "--require-full-coverage is not met: region 'failing_0'" in result.stderr


# explain


def test_explain_takes_names_and_globs(partita: Any, chain: Chain, library: Path) -> None:
    model = chain("Relu", "Softmax", "Neg", "Softmax")
    words = ("explain", model, "relu_0", "softmax_*", "--library", library, *EXACT)
    text = partita(*words).stdout
    assert "relu_0 (Relu) runs on exact, region exact_0" in text
    assert "not exact: Softmax has no kernel  [backend]" in text
    found = partita.json(*words)
    assert [n["node"] for n in found["nodes"]] == ["relu_0", "softmax_1", "softmax_3"]


def test_explain_says_what_keeps_regions_apart(partita: Any, chain: Chain, library: Path) -> None:
    model = chain("Relu", "Softmax", "Neg")
    text = partita("explain", model, "neg_2", "--library", library, *EXACT).stdout
    assert "runs on exact, region exact_1" in text


def test_explain_hints_at_near_names(partita: Any, chain: Chain, library: Path) -> None:
    result = partita("explain", chain("Relu"), "relu_1", "--library", library, *EXACT, code=2)
    assert "no node is named 'relu_1'; did you mean 'relu_0'?" in result.stderr


# compile and run


def test_compile_says_how_it_went(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out.onnx"
    model = chain("Relu", "Softmax")
    found = partita.json("compile", model, "--library", library, *EXACT, "-o", file)
    assert [r["backend"] for r in found["regions"]] == ["exact"]
    assert found["host_steps"] == 1
    assert found["files"] == [str(file)]
    onnx.checker.check_model(onnx.load(file))


def test_a_region_that_falls_back_is_one_line_and_a_record(
    partita: Any, chain: Chain, library: Path
) -> None:
    words = ("compile", chain("Relu"), "--library", library, "--backend", "failing")
    result = partita(*words, "--json")
    found = json.loads(result.stdout)
    assert [(f["backend"], f["to"]) for f in found["fallbacks"]] == [("failing", "host")]
    assert "failing could not compile it" in result.stderr
    assert "Fell back" in partita(*words).stdout


def test_strict_makes_it_an_error(partita: Any, chain: Chain, library: Path) -> None:
    words = ("--library", library, "--backend", "failing", "--strict")
    result = partita("compile", chain("Relu"), *words, code=3)
    assert result.stdout == ""
    assert "the engine cannot make it" in result.stderr


def test_run_shows_and_writes_the_outputs(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.array([[-1, 2, 4]], np.float32))
    words = ("--library", library, *EXACT, "--input", f"x={tmp_path / 'x.npy'}")
    found = partita.json("run", chain("Relu", "Neg"), *words, "-o", tmp_path / "y.npz")
    (output,) = found["outputs"]
    assert (output["name"], output["shape"], output["mean"]) == ("v1", [1, 3], -2.0)
    with np.load(tmp_path / "y.npz") as arrays:
        np.testing.assert_array_equal(arrays["v1"], [[0, -2, -4]])


def test_run_takes_sizes_for_open_dimensions(partita: Any, chain: Chain) -> None:
    words = ("--backend", "host", "--dim", "batch=7", "--seed", 3)
    found = partita.json("run", chain("Relu"), *words)
    assert found["inputs"][0]["shape"] == [7, 3]
    result = partita("run", chain("Relu"), "--backend", "host", "--dim", "bach=7", code=2)
    assert "did you mean 'batch'?" in result.stderr


def test_run_says_what_does_not_fit(partita: Any, chain: Chain, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    words = ("--backend", "host", "--input", f"x={tmp_path / 'x.npy'}")
    assert "'x'" in partita("run", chain("Relu"), *words, code=2).stderr


# compare


def test_compare_passes_and_says_by_how_much(partita: Any, chain: Chain, library: Path) -> None:
    words = ("compare", chain("Relu", "Softmax"), "--library", library, *EXACT)
    found = partita.json(*words)
    assert found["passed"] is True
    assert found["culprit"] is None
    assert "PASSED" in partita(*words).stdout


def test_compare_finds_who_is_wrong_and_writes_it_down(
    partita: Any, chain: Chain, library: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "repro"
    words = ("compare", chain("Neg", "Softmax", "Relu"), "--library", library, *EXACT)
    wrong = ("--backend-option", "exact.scale=1.5", "--repro", folder)
    result = partita(*words, *wrong, code=1)
    assert "FAILED" in result.stdout
    assert "region 'exact_0' of exact is the first to differ" in result.stdout
    assert "1 of 1 outputs differ: v2" in result.stderr
    assert (folder / "model.onnx").exists()
    found = partita.json(*words, *wrong, code=1)
    assert found["culprit"]["nodes"] == ["neg_0"]
    assert found["culprit"]["folder"] == str(folder)
    (row,) = found["outputs"]
    loose = ("--rtol", 0, "--atol", row["max_absolute"] * 1.001)
    assert partita.json(*words, *wrong, *loose)["passed"] is True


def test_compare_with_another_backend(partita: Any, chain: Chain, library: Path) -> None:
    words = ("compare", chain("Relu"), "--library", library, "--backend", "host")
    result = partita(*words, "--against", "exact")
    assert "partita: the other: exact 1 of 1 node" in result.stderr


# bench


def test_bench_measures_in_turns(partita: Any, chain: Chain, library: Path) -> None:
    words = ("bench", chain("Relu"), "--library", library, *EXACT, "--runs", 3, "--warmup", 1)
    found = partita.json(*words, "--against", "alone", "--against", "host")
    names = [c["name"] for c in found["configurations"]]
    assert names == ["partita", "exact alone", "partita host"]
    assert all(c["runs"] == 3 and c["median"] > 0 for c in found["configurations"])
    assert "of partita" in partita(*words).stdout


def test_bench_without_a_whole_engine(partita: Any, chain: Chain, library: Path) -> None:
    words = ("bench", chain("Relu", "Softmax"), "--library", library, *EXACT, "--runs", 1)
    assert [c["name"] for c in partita.json(*words)["configurations"]] == ["partita"]
    result = partita(*words, "--against", "alone", code=2)
    assert "exact alone does not take the whole model" in result.stderr


# backends and doctor


def test_backends_lists_what_there_is(partita: Any, library: Path) -> None:
    found = {b["name"]: b for b in partita.json("backends", "--library", library)["backends"]}
    assert {"onnxruntime", "openvino", "host", "null", "exact"} <= set(found)
    assert found["exact"]["options"] == {"scale": 1.0}
    assert found["host"]["available"] is True
    for row in found.values():
        assert row["available"] or row["install"] or row["problem"]
    assert "exact.scale" in partita("backends").stdout


def test_doctor_shows_the_machine(partita: Any) -> None:
    result = partita("doctor", "--json")
    found = json.loads(result.stdout)
    assert found["machine"]["python"].startswith("3.")
    assert found["packages"]["numpy"] == np.__version__
    assert found["problems"] == []


def test_doctor_says_how_to_mend_what_is_broken(
    partita: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('half installed')")
    monkeypatch.setenv("PARTITA_BACKENDS", f"broken:{broken}")
    found = partita.json("doctor", code=3)
    (problem,) = found["problems"]
    assert "half installed" in problem["what"]
    assert "PARTITA_BACKENDS" in problem["mend"]
    assert "mend it: " in partita("doctor", code=3).stdout


# documents


def test_the_documented_fields_are_those_of_the_documents(
    partita: Any, chain: Chain, library: Path
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `partita\.(\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert set(rows) == set(VERBS)
    common = ("--library", library, *EXACT)
    words: dict[str, tuple[object, ...]] = {
        "inspect": (chain("Relu"),),
        "explain": (chain("Relu"), "relu_0", *common),
        **{
            verb: (chain("Relu"), *common)
            for verb in ("plan", "compile", "run", "compare", "bench")
        },
        "backends": (),
        "doctor": (),
    }
    for verb, rest in words.items():
        documented = set(re.findall(r"`([a-z_]+)`", rows[verb].replace("`--diff` `diff`", "")))
        assert set(partita.json(verb, *rest)) - {"schema", "version"} == documented - {"null"}, verb
