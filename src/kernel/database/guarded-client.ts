/**
 * A connection that ends when an answer cannot be read. The driver reads in the event of the socket, where whatever
 * it throws (a text longer than any string, a broken message) would be nobody's error and the end of the process.
 */
import type { Duplex } from 'node:stream';
import pg from 'pg';

/** What the driver listens with; called again when the connection is encrypted. */
interface Wire {
  attachListeners(stream: Duplex): void;
}

export class GuardedClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    guard((this as unknown as { readonly connection: Wire }).connection);
  }
}

function guard(wire: Wire): void {
  const attach = wire.attachListeners.bind(wire);
  wire.attachListeners = (stream) => {
    const before = new Set(stream.listeners('data'));
    attach(stream);
    for (const read of stream.listeners('data')) {
      if (before.has(read)) continue;
      stream.off('data', read as (chunk: Buffer) => void);
      stream.on('data', (chunk: Buffer) => {
        try {
          read(chunk);
        } catch (error) {
          stream.destroy(error as Error);
        }
      });
    }
  };
}
