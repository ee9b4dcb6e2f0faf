"""The one tree of errors, and the reasons for which the router refuses a request.

    WarmrouteError
      ConfigError            an option, a file or a flag cannot be used; the message names it and what to write instead
      ModelAssetError        a tokenizer or model folder is missing or unreadable; the message names the next step
      TemplateError          a chat template failed on this conversation
        TemplateTooCostly    it asked for more work or memory than a prompt is worth
      UndecodableFrame       the bytes of a KV-event frame are not a batch of events
      WorkerUnreachable      a worker did not answer one of the router's own questions
      AddressInUse           the address to listen on is taken
      UnusableCosts          a policy gave something else than one cost for each worker
      ChildFailed            (in demo.child) a process that the demo started has ended too early
      UnreadableBody         (in openai_api.body) a request's body is not what its endpoint takes
      RouterUnreachable      (in cli.router_page) no router answers a command that looks into one
      PageRefused            (in cli.router_page) the router answered such a command with an error
      UnusableState          (in gateway.state_file) a state file cannot be read or written
      PolicyFailed           (in simulator.world) the policy of a simulation raised an error
      RunFailed              (in simulator.many) one of several simulations failed, or its process ended
      BrokenLine, LeftOut    (in request_log.request) a line of a log cannot be read, or tells of no engine's work

A refusal is a value, not an error: `Refusal(RefusalReason.NO_WORKER_READY)` becomes a status code at the border.
"""

from enum import StrEnum


class WarmrouteError(Exception):
    """Base of every error that warmroute raises on purpose; its text is fit to be shown to a person."""


class ConfigError(WarmrouteError):
    """An option, a configuration file or a flag cannot be used."""


class ModelAssetError(WarmrouteError):
    """A tokenizer or model folder is missing or unreadable."""


class TemplateError(WarmrouteError):
    """A chat template failed on a conversation, or is not a template."""


class TemplateTooCostly(TemplateError):
    """A chat template asks for more work or memory than a prompt is worth, when it is read or when it is rendered."""


class UndecodableFrame(WarmrouteError):
    """The bytes of a KV-event frame are not a batch of events."""


class WorkerUnreachable(WarmrouteError):
    """A worker did not answer one of the router's own questions."""


class AddressInUse(WarmrouteError):
    """The address to listen on is taken by another process."""


class UnusableCosts(WarmrouteError):
    """A policy gave something else than one cost for each worker."""


class RefusalReason(StrEnum):
    """Why no worker was chosen; the value goes out as `x-warmroute-refused`."""

    NO_WORKER_READY = "no-worker-ready"
    UNKNOWN_MODEL = "unknown-model"
    WORKERS_EXHAUSTED = "workers-exhausted"
    QUEUE_FULL = "queue-full"
    QUEUE_DEADLINE = "queue-deadline"
