/** How listeners of one question are told: those of one channel together, and nobody whose session has ended. */
import type { LiveMessage } from './live-messages.ts';

/** Reaches several listeners with one call. */
export interface LiveChannel {
  broadcast(message: LiveMessage): void;
}

/** Who is told. */
export interface Hearer {
  /** Whether it may still hear; a listener whose session has ended ends itself. Never rejects. */
  admits(): boolean | Promise<boolean>;
  /** Listeners of one channel are told together; asked once it has entered. */
  readonly channel?: LiveChannel | undefined;
  tell(message: LiveMessage): void;
}

/** `hearers`: those that leave meanwhile are told nothing. */
export async function tellAll(hearers: ReadonlySet<Hearer>, message: LiveMessage): Promise<void> {
  const listeners = [...hearers];
  const admitted = listeners.map((listener) => listener.admits());
  const waited = admitted.some((one) => one instanceof Promise)
    ? await Promise.all(admitted)
    : admitted;
  const channels = new Set<LiveChannel>();
  for (const [at, listener] of listeners.entries()) {
    if (!waited[at] || !hearers.has(listener)) continue;
    if (listener.channel) channels.add(listener.channel);
    else listener.tell(message);
  }
  for (const channel of channels) channel.broadcast(message);
}
