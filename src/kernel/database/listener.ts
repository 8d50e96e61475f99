/** The one connection that listens to NOTIFY channels. It comes back by itself and subscribes again. */
import pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import { type ClientOptions, clientConfig, keepTrying, prepareSession } from './connection.ts';
import { toPublicError } from './failures.ts';
import { identifier } from './sql.ts';

/** Connects when it is first asked to listen. */
export class Listener {
  readonly #connection: ClientOptions;
  readonly #log: Logger;
  readonly #channels = new Map<string, ((payload: string) => void)[]>();
  readonly #watchers: ((connected: boolean) => void)[] = [];
  #client: pg.Client | undefined;
  #connecting: Promise<void> | undefined;
  #everConnected = false;
  #closed = false;

  constructor(connection: ClientOptions, log: Logger) {
    this.#connection = connection;
    this.#log = log;
  }

  get connected(): boolean {
    return this.#client !== undefined;
  }

  onListening(watcher: (connected: boolean) => void): void {
    this.#watchers.push(watcher);
  }

  /** Resolves when the server has taken the subscription; during an outage it is taken up when the connection is back. */
  async listen(channel: string, onMessage: (payload: string) => void): Promise<void> {
    const known = this.#channels.get(channel);
    if (known) return void known.push(onMessage);
    this.#channels.set(channel, [onMessage]);
    try {
      if (!this.#client) await this.#connectOnce();
      // Also when the connection was just made: it may have been on its way before this channel was known.
      await this.#client?.query(`listen ${identifier(channel)}`);
    } catch (error) {
      if (!this.#client && this.#everConnected) return;
      this.#channels.delete(channel);
      throw toPublicError(error);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#connecting?.catch(() => undefined);
    await this.#client?.end().catch(() => undefined);
  }

  /** One attempt at a time, whoever asks. */
  #connectOnce(): Promise<void> {
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #connect(): Promise<void> {
    const client = new pg.Client(clientConfig(this.#connection));
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client));
    client.on('notification', ({ channel, payload }) => {
      for (const onMessage of this.#channels.get(channel) ?? [])
        this.#guarded(() => onMessage(payload ?? ''));
    });
    try {
      await client.connect();
      await prepareSession(client, this.#connection);
      const subscriptions = [...this.#channels.keys()].map(
        (channel) => `listen ${identifier(channel)}`,
      );
      if (subscriptions.length > 0) await client.query(subscriptions.join('; '));
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed) return void (await client.end());
    this.#client = client;
    if (this.#everConnected) this.#tell(true);
    this.#everConnected = true;
  }

  #lost(client: pg.Client, error?: Error): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    if (this.#closed) return;
    this.#log.warn(
      { err: error },
      'The listening database connection was lost and is being replaced',
    );
    void client.end().catch(() => undefined);
    this.#tell(false);
    void keepTrying(
      () => this.#connectOnce(),
      () => this.#closed || this.connected,
    );
  }

  #tell(connected: boolean): void {
    for (const watcher of this.#watchers) this.#guarded(() => watcher(connected));
  }

  /** A subscriber that throws must not take the connection or its neighbours down. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#log.error({ err: error }, 'A listener of a database notification failed');
    }
  }
}
