/** What functions log, as they run: server-sent events for operators. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { stillHolds } from '../../../kernel/operations/operation-input.ts';
import { functionErrors } from '../errors.ts';
import type { Functions } from '../services/functions.ts';
import type { RunTail, TailLine, TailReader } from '../services/tail.ts';
import { adminFacts, IdParam } from './shapes.ts';

const SSE = 'text/event-stream';
const NDJSON = 'application/x-ndjson';
/** Seconds. */
const LONGEST = 3_540;
/** Milliseconds after which a sign of life is sent, and the credential is looked at, as before each line. */
const HEARTBEAT_MS = 10_000;

export const tailOperation = (functions: Functions, tail: RunTail): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.logs.follow',
    method: 'GET',
    path: '/functions/logs/stream',
    mcp: false,
    deadlineMs: (LONGEST + 60) * 1_000,
    account: { statements: Number.POSITIVE_INFINITY, bytesOut: Number.POSITIVE_INFINITY },
    input: {
      query: Type.Object({
        function: Type.Optional({ ...IdParam, description: 'Only of this function: id or name' }),
        seconds: Type.Integer({
          default: 900,
          minimum: 1,
          maximum: LONGEST,
          description: 'How long; then it ends',
        }),
      }),
      headers: Type.Object({ accept: Type.Optional(Type.String({ maxLength: 1_024 })) }),
    },
    output: Type.Unknown({ description: 'Lines, or server-sent events' }),
    streams: {
      [SSE]:
        'With `Accept: text/event-stream`: `open` once it listens; of each run `begin`, `log` (`level`, `text`, `at`: milliseconds since it began) and `end` (`outcome`, `error`, `duration`, `cpuMs`, `memoryPeak`), with `executionId`, `functionId` and `functionName`; `gap` (`dropped`) where the reader was too slow',
      [NDJSON]: 'The same as JSON lines, each with its name as `kind`',
    },
    errors: [functionErrors.FUNCTION_NOT_FOUND, functionErrors.TAIL_LIMIT_EXCEEDED],
    summary: 'Follow the logs of functions',
    description:
      'From now on, of runs on every node, a moment after they were written. What was before is in the records of runs. It ends with the credential.',
    async handler({ signal, callerNow }, { query, headers }) {
      const reader = tail.open({ functionId: functionOf(functions, query.function), signal });
      const isSse = headers.accept?.includes(SSE) === true;
      const until = performance.now() + query.seconds * 1_000;
      const lines = followed(reader, { until, callerNow });
      return Reply.stream(isSse ? SSE : NDJSON, written(lines, isSse ? asEvent : asLine), {
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
    },
  });

function functionOf({ store }: Functions, asked: string | undefined): string | undefined {
  if (asked === undefined) return undefined;
  const found = store.byId(asked) ?? store.byName(asked);
  if (!found) throw functionErrors.FUNCTION_NOT_FOUND();
  return found._id;
}

type Line = TailLine | { readonly kind: 'open' | 'alive' };

interface Following {
  /** On the clock of `performance.now()`. */
  readonly until: number;
  /** Throws when the credential does not hold any more. */
  readonly callerNow: () => unknown;
}

async function* followed(
  reader: TailReader,
  { until, callerNow }: Following,
): AsyncGenerator<Line> {
  let examineAt = performance.now() + HEARTBEAT_MS;
  try {
    yield { kind: 'open' };
    for (;;) {
      const left = Math.min(until, examineAt) - performance.now();
      const lines = await reader.next(Math.max(1, left));
      const isTime = performance.now() >= examineAt;
      if ((lines.length > 0 || isTime) && !(await stillHolds(callerNow))) return;
      yield* lines;
      if (reader.closed || performance.now() >= until) return;
      if (!isTime) continue;
      examineAt = performance.now() + HEARTBEAT_MS;
      if (lines.length === 0) yield { kind: 'alive' };
    }
  } finally {
    reader.close();
  }
}

async function* written(
  lines: AsyncIterable<Line>,
  form: (line: Line) => string,
): AsyncGenerator<string> {
  for await (const line of lines) yield form(line);
}

const asLine = (line: Line): string => `${JSON.stringify(line)}\n`;

function asEvent({ kind, ...data }: Line): string {
  return kind === 'alive' ? ':\n\n' : `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
}
