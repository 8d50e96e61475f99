/** A way to a server that can be cut. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface TcpProxy {
  readonly port: number;
  /** Ends every connection and takes no new one until `mend`. */
  cut(): void;
  /** Lets nothing through any more, without a word, until `mend`. */
  stop(): void;
  mend(): void;
  /** Leads new connections to another server; those that are open end. */
  lead(port: number): void;
  close(): Promise<void>;
}

/** Listens on a free port of 127.0.0.1 and passes everything on to `target`. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const open = new Set<Socket>();
  let port = target;
  let whole = true;
  let still = false;
  const server = createServer((near) => {
    if (!whole) {
      near.destroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from);
      if (!still) from.pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        open.delete(from);
        to.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    whole = false;
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    stop() {
      still = true;
      for (const socket of open) socket.unpipe().pause();
    },
    // Whoever waited while nothing went through has to come again.
    mend() {
      if (still) for (const socket of open) socket.destroy();
      still = false;
      whole = true;
    },
    lead(other) {
      port = other;
      for (const socket of open) socket.destroy();
    },
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
