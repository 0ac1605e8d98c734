from __future__ import annotations

import pytest

from lanewise.errors import UsageError
from lanewise.recording.plan import FLAGS, Plan


def test_needed_steps_and_the_number_of_the_first_recorded_one() -> None:
    plan = Plan(skip=4, timed=6, warmup=2, active=3)
    assert plan.needed == 15
    assert plan.first_step == 12


def test_a_whole_run_needs_no_steps() -> None:
    assert Plan(whole=True).needed == 0


def test_json_keeps_everything() -> None:
    plan = Plan(skip=1, stack=True, out="x.json.gz", ranks=(0, 3), limit_bytes=7)
    assert Plan.from_json(plan.to_json()) == plan


def test_json_of_another_version_is_read_as_far_as_it_is_known() -> None:
    text = Plan(active=9).to_json().replace("{", '{"later": 1, ', 1)
    assert Plan.from_json(text) == Plan(active=9)


@pytest.mark.parametrize("wrong", [{"skip": -1}, {"active": 0}, {"limit_bytes": -5}])
def test_numbers_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Plan(**wrong)


@pytest.mark.parametrize("steps", [2, 3, 5, 8, 12, 19, 100])
def test_a_fitting_plan_fits_and_records_something(steps: int) -> None:
    fitting = Plan().fitting(steps)
    assert fitting is not None
    assert fitting.needed <= steps
    assert fitting.active >= 1


def test_nothing_fits_in_one_step() -> None:
    assert Plan().fitting(1) is None


def test_every_flag_is_a_field_and_says_its_cost() -> None:
    assert set(Plan().flags) == set(FLAGS) == {"shapes", "stack", "memory", "flops", "modules"}
    assert all(len(cost) > 20 for cost in FLAGS.values())
