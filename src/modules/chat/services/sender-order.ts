/**
 * Messages of one socket are stored in the order in which they came, though some take longer until they can be: files and
 * mentions are looked up.
 */

/** The place of one message. */
export interface Place {
  /** Resolved when all before it are on their way, or refused. */
  readonly before: Promise<void>;
  /** It is on its way, or refused. */
  leave(): void;
}

export interface SenderOrder {
  /** To be called as soon as a message has come. */
  take(sender: object): Place;
}

export function createSenderOrder(): SenderOrder {
  const last = new WeakMap<object, Promise<void>>();
  return {
    take(sender) {
      const before = last.get(sender) ?? Promise.resolve();
      const { promise, resolve } = Promise.withResolvers<void>();
      last.set(
        sender,
        before.then(() => promise),
      );
      return { before, leave: resolve };
    },
  };
}
