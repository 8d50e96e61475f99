/** Talks to a forked program that answers each message with one message. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Helper<Q, A> {
  readonly pid: number;
  ask(question: Q): Promise<A>;
  /** The program ends when its channel is closed. */
  close(): void;
}

/** Starts a file of this folder. */
export function startHelper<Q extends object, A>(file: string): Helper<Q, A> {
  const child: ChildProcess = fork(fileURLToPath(new URL(file, import.meta.url)));
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${file} ended with code ${code}`);
  });
  ended.catch(() => undefined);
  return {
    pid: child.pid ?? 0,
    async ask(question) {
      const answer = once(child, 'message');
      child.send(question);
      const [message] = await Promise.race([answer, ended]);
      return message as A;
    },
    close: () => child.disconnect(),
  };
}
