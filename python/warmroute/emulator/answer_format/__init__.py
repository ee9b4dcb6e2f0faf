"""How an answer is written down: one file per dialect."""

from warmroute.emulator.answer_format.chat import ChatFormat
from warmroute.emulator.answer_format.completion import CompletionFormat
from warmroute.emulator.answer_format.dialect import AnswerFormat, Exchange, Usage
from warmroute.emulator.answer_format.messages import MessagesFormat
from warmroute.emulator.answer_format.responses import ResponsesFormat

__all__ = [
    "AnswerFormat",
    "ChatFormat",
    "CompletionFormat",
    "Exchange",
    "MessagesFormat",
    "ResponsesFormat",
    "Usage",
]
