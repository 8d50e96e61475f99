/** Sockets of the load: frames of Socket.IO over WebSockets, read no further than is needed, so that the load is light. */
import { WebSocket } from 'ws';

export interface LoadSocket {
  /** Sends an event; resolves with the acknowledgement. */
  ask(event: string, ...args: readonly unknown[]): Promise<unknown>;
  close(): void;
}

export interface LoadOptions {
  /** Such as `http://127.0.0.1:3000`. */
  readonly origin: string;
  readonly namespace: string;
  readonly auth: object;
  /** Where the connection comes from: limits are for each address. */
  readonly localAddress?: string;
  /** Each event, as its text. */
  readonly onEvent?: (frame: string) => void;
}

/** Resolves when the namespace has let it in. */
export async function openSocket(options: LoadOptions): Promise<LoadSocket> {
  const { origin, namespace, auth, localAddress, onEvent = () => undefined } = options;
  const url = `${origin.replace('http', 'ws')}/realtime/?EIO=4&transport=websocket`;
  const socket = new WebSocket(url, { perMessageDeflate: false, localAddress });
  const waiting = new Map<number, (answer: unknown) => void>();
  const [event, acknowledgement] = [`42${namespace},[`, `43${namespace},`];
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let asked = 0;
  socket.on('error', reject);
  socket.on('message', (data: Buffer) => {
    const frame = data.toString();
    if (frame.startsWith(event)) onEvent(frame);
    else if (frame.startsWith(acknowledgement)) {
      const from = frame.indexOf('[');
      const id = Number(frame.slice(acknowledgement.length, from));
      waiting.get(id)?.(JSON.parse(frame.slice(from))[0]);
      waiting.delete(id);
    } else if (frame === '2') socket.send('3');
    else if (frame.startsWith('0')) socket.send(`40${namespace},${JSON.stringify(auth)}`);
    else if (frame.startsWith('40')) resolve();
    else if (frame.startsWith('44')) reject(new Error(frame));
  });
  await promise;
  return {
    ask(name, ...args) {
      const id = asked++;
      const answer = new Promise<unknown>((done) => waiting.set(id, done));
      socket.send(`42${namespace},${id}${JSON.stringify([name, ...args])}`);
      return answer;
    },
    close: () => socket.terminate(),
  };
}

/** Milliseconds on one clock for all sockets, as the text of a message. */
export const stamp = (): string => `at=${performance.now().toFixed(3)}=`;

/** How long ago the message of this frame was sent, in ms; nothing for other frames. */
export function ageOf(frame: string): number | undefined {
  const from = frame.indexOf('at=');
  return from < 0
    ? undefined
    : performance.now() - Number(frame.slice(from + 3, frame.indexOf('=', from + 3)));
}

/** Opens many, some at a time. */
export async function openAll<T>(count: number, open: (index: number) => Promise<T>): Promise<T[]> {
  const opened: T[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      while (next < count) {
        const index = next++;
        opened[index] = await open(index);
      }
    }),
  );
  return opened;
}
