"""The words of a report in each language, and how it names outcomes and warnings. Sentences are in `messages/`.

A key missing in one language is found by a test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainmark.messages.message import Message, warning_titles
from trainmark.store.rows import RunRow

WORDS: dict[str, dict[str, str]] = {
    "en": {
        "title": "Training speed",
        "environment": "Environment",
        "setup": "Set-up",
        "steps": "Steps",
        "results": "Results",
        "logs": "Logs",
        "nodes": "nodes",
        "outcome": "outcome",
        "software": "software",
        "system": "system",
        "host": "host",
        "commit": "commit",
        "measured": "measured",
        "measured_utc": "measured (UTC)",
        "version": "framework",
        "until": "to",
        "commands": "These commands produced the numbers; each run folder has its own in `command.json`.",
        "how": "Throughput is samples over seconds of the steady state, over all devices. The interval covers the true "
        "value 95 times in 100, allowing for steps that depend on each other and for differences between repeats.",
        "folder": "run folder",
        "problem": "what went wrong",
        "time": "time",
        "flags": "settings",
        "usual_flags": "Settings (unless noted in the row): {flags}.",
        "not_known": "not known",
        "warnings": "warnings",
        "warning": "warning",
        "no_result": "no result",
        "too_few": "too few steps for an interval",
        "all_lines": "all",
        "left_out": "left out for lack of room: {columns}; --columns NAME,... chooses",
        "too_noisy": "too noisy",
        "above_peak": "above the peak",
        "seen": "seen {spread}",
        "noisy_sentence": "too noisy to be a result, {spread} seen",
        "beyond": "> ±{limit:.0%}",
        "refused": "(no interval: {why})",
        "within_run": "{relative} within one run",
        "remarks": "Remarks",
        "remark": "note",
        "mark": "marked",
        "marked": "{law}: {message} ({run}{more})",
        "accepted": "accepted on {day}: {because}",
        "marked_note": "! breaks a law, or rests on a result that does: left out of compare and check unless accepted: "
        "trainmark accept RUN --law LAW --because TEXT",
        "within_note": "The interval of a single run is within that run: another run may differ by more.",
        "scaling": "Scaling",
        "weak": "weak scaling",
        "strong": "strong scaling",
        "unknown": "scaling",
        "global_batch": "global batch",
        "base": "base",
        "other_base": "compared with another environment: {base}, not {own}",
        "other_base_note": "baseline of another environment (software, host): its own has none with fewer devices",
        "missing": "missing",
        "skipped": "skipped",
        "not_run": "not run",
        "why": "why",
        "short_batch": "batch",
        "part_of": "{part} of {lost}",
        "all_of": "all of {lost}",
        "at_rate": " at {rate}",
        "why_communication": "efficiency {efficiency}: communication: {share} lost per step is exposed all-reduce of "
        "{size}{rate}",
        "why_compute": "efficiency {efficiency}: slower compute: {share} lost per step; without communication "
        "a step takes {twin} instead of {ideal}",
        "why_rest": "efficiency {efficiency}: neither communication nor slower compute: {share} lost per step was not "
        "seen when communication was measured right after; other processes may disturb the machine",
        "why_unknown": "efficiency {efficiency}: unknown cause: {reason}",
        "cores": "{num} cores",
        "colon": ": ",
        "semicolon": "; ",
        "and_more": " (and {num} more)",
        "one_warning": "{num}: {first}",
        "several_warnings": "{num}: {first}",
    },
    "zh": {
        "title": "训练速度",
        "environment": "环境",
        "setup": "设置",
        "steps": "步骤",
        "results": "结果",
        "logs": "日志",
        "nodes": "节点数",
        "outcome": "结束状态",
        "software": "软件",
        "system": "操作系统",
        "host": "主机",
        "commit": "提交",
        "measured": "测量时间",
        "measured_utc": "测量时间（UTC）",
        "version": "框架",
        "until": "至",
        "commands": "以下命令产生了这些数字；每个运行目录中的 `command.json` 保存了它自己的命令。",
        "how": "吞吐量为稳态阶段的样本数除以秒数，按全部设备合计。区间在 100 次中有 95 次覆盖真值，"
        "已考虑步与步之间的相关性以及重复运行之间的差异。",
        "folder": "运行目录",
        "problem": "出了什么问题",
        "time": "用时",
        "flags": "设置项",
        "usual_flags": "设置项（行中另有注明者除外）：{flags}。",
        "not_known": "未知",
        "warnings": "警告",
        "warning": "警告",
        "no_result": "无结果",
        "too_few": "步数太少，无法给出区间",
        "all_lines": "全部",
        "left_out": "因宽度不足省略：{columns}；可用 --columns NAME,... 选择",
        "too_noisy": "噪声过大",
        "above_peak": "高于峰值",
        "seen": "所见 {spread}",
        "noisy_sentence": "噪声过大，不能作为结果，所见 {spread}",
        "beyond": "> ±{limit:.0%}",
        "refused": "（无区间：{why}）",
        "within_run": "{relative}（单次运行之内）",
        "remarks": "说明",
        "remark": "说明",
        "mark": "标记",
        "marked": "{law}：{message}（{run}{more}）",
        "accepted": "已于 {day} 接受：{because}",
        "marked_note": "! 违反合理性规则，或以此类结果为依据：除非已接受，不参与 compare 和 check："
        "trainmark accept RUN --law LAW --because TEXT",
        "within_note": "单次运行的区间只反映该次运行之内的波动：另一次运行的差别可能更大。",
        "scaling": "扩展性",
        "weak": "弱扩展",
        "strong": "强扩展",
        "unknown": "扩展",
        "global_batch": "全局批大小",
        "base": "基准",
        "other_base": "基准来自另一环境：{base}，而非 {own}",
        "other_base_note": "基准来自另一环境（软件、主机）：自身环境中没有更少设备的结果",
        "missing": "缺失",
        "skipped": "已跳过",
        "not_run": "未运行",
        "why": "原因",
        "short_batch": "批大小",
        "part_of": "损失的 {lost} 中有 {part} ",
        "all_of": "损失的 {lost} 全部",
        "at_rate": "，速率 {rate}",
        "why_communication": "效率 {efficiency}：通信：每步{share}是未被掩盖的 all-reduce（{size}{rate}）",
        "why_compute": "效率 {efficiency}：计算变慢：每步{share}源于此；无通信时一步用时 {twin}，本应为 {ideal}",
        "why_rest": "效率 {efficiency}：既非通信也非计算变慢：每步{share}在随后测量通信时已消失；机器不够空闲",
        "why_unknown": "效率 {efficiency}：原因未知：{reason}",
        "cores": "{num} 核",
        "colon": "：",
        "semicolon": "；",
        "and_more": "（另有 {num} 条）",
        "one_warning": "{num} 条：{first}",
        "several_warnings": "{num} 条，首条：{first}",
    },
}

OUTCOMES = {
    "en": {name: name for name in ("ok", "oom", "nan", "hang", "killed", "failed", "timeout", "running")},
    "zh": {
        "ok": "成功",
        "oom": "内存/显存不足",
        "nan": "损失值异常",
        "hang": "卡死",
        "killed": "被终止",
        "failed": "失败",
        "timeout": "超时",
        "running": "运行中",
    },
}
UNITS = {
    "en": {"images": "images/s", "clips": "clips/s"},
    "zh": {
        "images": "图像/秒",
        "clips": "片段/秒",
        "frames": "帧/秒",
        "samples": "样本/秒",
        "examples": "样例/秒",
        "iterations": "迭代/秒",
        "sequences": "序列/秒",
        "sentences": "句/秒",
        "tokens": "词元/秒",
        "words": "词/秒",
        "steps": "步/秒",
    },
}

DOUBTS = {
    "en": {
        "two-levels": "two levels",
        "level-changed": "level changed",
        "drift": "drift",
        "still-warming-up": "warming up",
        "rare-stalls": "rare stalls",
        "period": "period",
        "printed-digits": "few digits",
    },
    "zh": {
        "two-levels": "两个水平",
        "level-changed": "水平改变",
        "drift": "漂移",
        "still-warming-up": "仍在预热",
        "rare-stalls": "偶发停顿",
        "period": "周期",
        "printed-digits": "位数太少",
    },
}
"""Why there is no interval, in two words for a table."""

RUNNING = "running"
"""Stands for the outcome of a run that has none yet."""


def say_outcome(run: RunRow, lang: str, *, with_code: bool = False) -> str:
    """hang; in Chinese 卡死, `with_code` 卡死 (hang), the name in files and `--json`."""
    outcome = run.outcome or RUNNING
    name = name_outcome(outcome, lang)
    return f"{name} ({outcome})" if with_code and outcome not in ("ok", name) else name


def name_doubt(code: str, lang: str) -> str:
    return DOUBTS[lang].get(code, code)


def name_outcome(outcome: str, lang: str) -> str:
    return OUTCOMES[lang].get(outcome, outcome)


def say_warning(warning: Mapping[str, Any], lang: str) -> str:
    """The sentence; in Chinese after its title and its code, by which the docs explain it."""
    text = Message.from_json(warning).in_language(lang)
    if lang != "zh":
        return text
    code, titles = warning["code"], warning_titles()
    return f"{titles[code]}（{code}）：{text}" if code in titles else f"{code}：{text}"


def say_coded_warning(warning: Mapping[str, Any], lang: str, *, num: int) -> str:
    """Of a code that came `num` times."""
    text = say_warning(warning, lang)
    text = text if lang == "zh" else f"{warning['code']}: {text}"
    return text if num == 1 else f"{text}{WORDS[lang]['and_more'].format(num=num - 1)}"


def say_first_warning(warnings: Sequence[Mapping[str, Any]], lang: str) -> str:
    """How many there are, and the first of them."""
    form = WORDS[lang]["one_warning" if len(warnings) == 1 else "several_warnings"]
    return form.format(num=len(warnings), first=say_warning(warnings[0], lang))
