/** Changes of permissions as they happen, as JSON lines or as server-sent events. */
import Type from 'typebox';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import type { ChangeStreams, StreamLine } from '../services/change-stream.ts';

const NDJSON = 'application/x-ndjson';
const SSE = 'text/event-stream';
/** Seconds. */
const LONGEST = 900;

export const changeStreamOperation = (streams: ChangeStreams): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    id: 'authorization.changes.stream',
    method: 'GET',
    path: '/authorization/changes/stream',
    mcp: false,
    deadlineMs: (LONGEST + 60) * 1000,
    account: { statements: Number.POSITIVE_INFINITY, bytesOut: Number.POSITIVE_INFINITY },
    input: {
      query: Type.Object({
        after: Type.Optional(
          Type.Integer({
            minimum: 0,
            description: 'Changes after this position; without it, from now on',
          }),
        ),
        seconds: Type.Integer({
          default: 300,
          minimum: 1,
          maximum: LONGEST,
          description: 'How long; then it ends with the position to go on from',
        }),
      }),
      headers: Type.Object({
        accept: Type.Optional(Type.String({ maxLength: 1024 })),
        'last-event-id': Type.Optional(
          Type.Integer({ minimum: 0, description: 'As `after`; browsers send it by themselves' }),
        ),
      }),
    },
    output: Type.Unknown({ description: 'Lines, or server-sent events' }),
    streams: {
      [NDJSON]:
        'One line each: `{"change": {...}}` as in the list of changes; `{"position": n}` when all up to n was sent, and every 15 seconds; `{"gap": {"after", "position"}}` when what happened in between is no longer kept; `{"end": {"position": n}}`',
      [SSE]:
        'With `Accept: text/event-stream`: the same as events of these names. The id is a position, so that a reconnect goes on',
    },
    errors: [authorizationErrors.STREAM_LIMIT_EXCEEDED],
    summary: 'Follow what changes about permissions',
    description:
      'In the order of the commits, each at least once for a reader that goes on from the last position it was told. After a gap, read the relations anew. It ends with the credential.',
    async handler({ signal, callerNow }, { query: { after, seconds }, headers }) {
      const lines = streams.open({
        after: headers['last-event-id'] ?? after,
        lifetimeMs: seconds * 1000,
        signal,
        callerNow,
      });
      const isSse = headers.accept?.includes(SSE) === true;
      return Reply.stream(isSse ? SSE : NDJSON, written(lines, isSse ? asEvent : asLine), {
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
    },
  });

async function* written(
  lines: AsyncIterable<StreamLine>,
  form: (line: StreamLine) => string,
): AsyncGenerator<string> {
  for await (const line of lines) yield form(line);
}

/** As in the list of changes. */
const changeOnWire = (change: PublishedEvent) => {
  const { sequence, topic, ids = [], payload = {}, actor, occurredAt } = change;
  return { sequence, topic, ids, payload, actor, occurredAt };
};

function dataOf(line: StreamLine): unknown {
  switch (line.kind) {
    case 'change':
      return changeOnWire(line.change);
    case 'gap':
      return { after: line.after, position: line.position };
    case 'end':
      return { position: line.position };
    case 'position':
      return line.position;
  }
}

const asLine = (line: StreamLine): string => `${JSON.stringify({ [line.kind]: dataOf(line) })}\n`;

/** A change has no id: what one write did has one position, and is known to be whole only behind it. */
const asEvent = (line: StreamLine): string =>
  `event: ${line.kind}\n${line.kind === 'change' ? '' : `id: ${line.position}\n`}data: ${JSON.stringify(dataOf(line))}\n\n`;
