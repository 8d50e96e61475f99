/** The lines of one event stream: what its question is answered with, and what changes about that. */
import type { Caller } from '../../kernel/caller.ts';
import { watchExpiry } from './connection.ts';
import type { LiveEngine, WatchRequest } from './live/live-engine.ts';
import type { LiveBeginning } from './live/live-messages.ts';
import { openLiveStream, type StreamMessage, type StreamSessions } from './live-stream.ts';

/** Milliseconds of silence after which a sign of life is sent, and the session is looked at. */
const HEARTBEAT_MS = 15_000;

export interface Listening {
  readonly caller: Caller;
  /** Id of the app that was presented. */
  readonly app: string | undefined;
  /** Throws when the session has ended. */
  readonly callerNow: () => Caller | Promise<Caller>;
  /** Milliseconds until its token ends, where that is known. */
  readonly endsIn: () => number | undefined;
  readonly signal: AbortSignal;
  readonly request: WatchRequest;
}

export interface StreamParts {
  readonly engine: LiveEngine;
  readonly sessions: StreamSessions;
}

const visitor = { userId: '', sessionId: undefined } as const;

/** Rejects with what the operation rejects with that answers the same. */
export async function listenAsStream(
  { engine, sessions }: StreamParts,
  { caller, app, callerNow, endsIn, signal, request }: Listening,
): Promise<AsyncGenerator<string>> {
  const stream = await openLiveStream((listener) => engine.watch(caller, request, listener), {
    callerNow,
    onSlow: engine.slow,
  });
  const { userId, sessionId } = caller.kind === 'user' ? caller : visitor;
  const recheck = async (): Promise<void> => void (await stream.admits());
  const forget = sessions.enter({ userId, app, sessionId: () => sessionId }, recheck);
  let connected = true;
  const socket = {
    get connected() {
      return connected;
    },
  };
  const expiry = watchExpiry(socket, { endsIn }, recheck);
  expiry.watch();
  const leave = (): void => {
    connected = false;
    expiry.stop();
    forget();
    stream.leave();
  };
  // The client may go before the first line is asked for, or have gone.
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave, { once: true });
  async function* lines(): AsyncGenerator<string> {
    try {
      const beginning = beginningText(stream.watch, stream.beginning, request.since !== undefined);
      yield `retry: ${comesBackIn()}\n${beginning}`;
      while (true) {
        const message = await stream.next(HEARTBEAT_MS);
        if (message === 'end') return;
        if (message !== 'silence') yield eventText(message);
        else if (await stream.admits()) yield ':\n\n';
      }
    } finally {
      leave();
    }
  }
  return lines();
}

/** Milliseconds after which a browser comes back when the stream breaks: not all at once. */
const comesBackIn = (): number => 1_000 + Math.floor(Math.random() * 4_000);

const idLine = (data: unknown): string => {
  const position = (data as { readonly position?: unknown } | undefined)?.position;
  return typeof position === 'string' ? `id: ${position}\n` : '';
};

const eventText = ({ event, data }: StreamMessage): string =>
  `event: ${event}\n${idLine(data)}data: ${JSON.stringify(data)}\n\n`;

/** The records go out as PostgreSQL has made them. */
function beginningText(watch: string, beginning: LiveBeginning, resumes: boolean): string {
  if (beginning.kind === 'missed')
    return `id: ${beginning.position}\n:\n\n${beginning.messages.map(eventText).join('')}`;
  const place = `"watch":"${watch}","position":"${beginning.position}"${resumes ? ',"gap":true' : ''}`;
  const [event, rest] =
    beginning.kind === 'value'
      ? ['value', `"value":${beginning.json}`]
      : ['list', `"records":[${beginning.rows.map(({ json }) => json).join(',')}]`];
  return `event: ${event}\nid: ${beginning.position}\ndata: {${place},${rest}}\n\n`;
}
