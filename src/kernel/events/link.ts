/**
 * Knows whether this node may trust what it keeps in memory: it hears the bus, and its lease runs
 * (nodes.ts). It trusts no connection state: with each heartbeat the node sends itself a message.
 * Both are reckoned from when they were sent, and looked at when somebody asks, so that a process
 * that was paused knows it before it answers anybody.
 */
import type { Database } from '../database/database.ts';
import { healthSql, identitySql } from '../database/sql.ts';
import type { VersionReading, Versions } from '../freshness/versions.ts';
import type { Logger } from '../telemetry/logger.ts';

/*
 * Which processes run on this database: one row each, kept alive by a heartbeat. The heartbeat is a
 * lease: until `leaseMs` after it a node may answer from memory, and others count on it that it does
 * not do so longer. Its end is reckoned by the clock of the database alone.
 */

interface OtherNode {
  readonly id: string;
  /** It receives bus messages and its lease runs: worth waiting for. */
  readonly hears: boolean;
}

interface Heartbeat extends VersionReading {
  /** Another node noted that a message did not reach this one, or nobody knew this one any more. */
  readonly missed: boolean;
  /** Nodes that this heartbeat struck from the list, because they have ended without a word. */
  readonly buried: number;
}

export interface NodeRegistry {
  /** Renews the lease; `listening`: whether this node receives bus messages. */
  beat(listening: boolean): Promise<Heartbeat>;
  others(): Promise<readonly OtherNode[]>;
  /**
   * Notes on each of these nodes that it missed a message, which it finds out with its next heartbeat.
   * Answers the milliseconds until the last of their leases has ended.
   */
  markMissed(ids: readonly string[]): Promise<number>;
  leave(): Promise<void>;
}

/** Milliseconds for which a heartbeat lets a node answer from memory. */
export const leaseMs = 1_000;
/** Milliseconds without a heartbeat after which a node is struck from the list. If it comes back, it starts anew. */
const deadAfterMs = 5_000;

export function createNodeRegistry(database: Database, nodeId: string): NodeRegistry {
  return {
    async beat(listening) {
      // `seen_at` is later than the moment from which the node itself reckons its lease.
      const { rows } = await database.query<Heartbeat>(healthSql`
        with before as (select missed from penstock.nodes where node_id = ${nodeId} for update),
        beat as (
          insert into penstock.nodes (node_id, listening, seen_at) values (${nodeId}, ${listening}, clock_timestamp())
          on conflict (node_id) do update set seen_at = clock_timestamp(), listening = excluded.listening, missed = false
        ),
        buried as (
          delete from penstock.nodes
          where node_id <> ${nodeId} and seen_at < now() - ${deadAfterMs}::integer * interval '1 millisecond'
          returning node_id
        )
        select coalesce((select missed from before), true) as missed, (select count(*)::integer from buried) as buried,
          pg_postmaster_start_time()::text as server,
          (select json_object_agg(topic, version) from penstock.versions) as versions`);
      const [heartbeat] = rows;
      if (!heartbeat) throw new Error('The database did not answer the heartbeat');
      return heartbeat;
    },
    async others() {
      const { rows } = await database.query<OtherNode>(identitySql`
        select node_id as id, listening and seen_at > clock_timestamp() - ${leaseMs}::integer * interval '1 millisecond' as hears
        from penstock.nodes
        where node_id <> ${nodeId} and seen_at > clock_timestamp() - ${deadAfterMs}::integer * interval '1 millisecond'`);
      return rows;
    },
    async markMissed(ids) {
      const { rows } = await database.query<{ remaining: number }>(identitySql`
        update penstock.nodes set missed = true where node_id = any(${ids}::text[])
        returning case when listening
          then ${leaseMs}::float8 - extract(epoch from clock_timestamp() - seen_at)::float8 * 1000 else 0 end as remaining`);
      return Math.max(0, ...rows.map(({ remaining }) => remaining));
    },
    async leave() {
      await database.query(healthSql`delete from penstock.nodes where node_id = ${nodeId}`);
    },
  };
}

/*
 * Moments for leases. A process that is paused or a machine that sleeps notices it here, at the first
 * look at the clock, before any timer has run.
 */

/** On both clocks: `performance.now()`, which nobody sets, and the wall clock, which goes on while a machine sleeps. */
export interface ClockReading {
  readonly steady: number;
  readonly wall: number;
}

export const clockNow = (): ClockReading => ({ steady: performance.now(), wall: Date.now() });

/** Whether less than `ms` have passed by either clock. A wall clock that was set back counts as time that passed. */
const isYounger = ({ steady, wall }: ClockReading, ms: number): boolean =>
  performance.now() - steady < ms && Math.abs(Date.now() - wall) < ms;

const earlier = (a: ClockReading, b: ClockReading): ClockReading => (a.steady < b.steady ? a : b);

interface LinkOptions {
  readonly registry: NodeRegistry;
  readonly log: Logger;
  /** Milliseconds between heartbeats. */
  readonly heartbeatMs: number;
  /** Sends a message to this very node; it comes back to `echoed`. */
  readonly probe: (sent: ClockReading) => Promise<void>;
  /** Messages may have been missed: forget what was kept without a version. */
  readonly onGap: () => void;
  /** A node has ended without a word, perhaps between a commit and its announcement: nobody may trust what was kept. */
  readonly onBuried: () => void;
}

/** Own messages in a row that do not come back until the bus counts as lost. */
const silentLimit = 4;

export class Link {
  readonly #options: LinkOptions;
  /** What this node says of itself to the others. */
  #claimed = true;
  /** Whether that is stored, and so may be relied upon. */
  #listening = false;
  #gap = false;
  #silent = 0;
  #heard: ClockReading | undefined;
  #beaten: ClockReading | undefined;
  /** The earlier of the two: memory is true as of then. */
  #trueAt: ClockReading | undefined;
  #versions: Versions | undefined;
  #timer: NodeJS.Timeout | undefined;
  #beating = 0;
  #queue: Promise<void> = Promise.resolve();
  #complained = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** Starts the heartbeats. Call it once messages are received and the node has been registered, which began at `registered`. */
  start(versions: Versions, registered: ClockReading): void {
    this.#versions = versions;
    this.#heard = registered;
    this.#beaten = registered;
    this.#trueAt = registered;
    this.#listening = true;
    this.#timer = setInterval(() => this.#tick(), this.#options.heartbeatMs);
    this.#timer.unref();
  }

  /** Whether what is kept in memory is true now. */
  certain(): boolean {
    return this.#listening && this.#trueAt !== undefined && isYounger(this.#trueAt, leaseMs);
  }

  /** What the transport says about its connection. */
  changed(connected: boolean): void {
    if (!connected) this.#lose('the connection was lost');
    else if (!this.#claimed) this.#sendProbe();
  }

  /** An own message came back: everything that was sent before it has come, too. */
  echoed(sent: ClockReading): void {
    this.#silent = 0;
    this.#heard = sent;
    this.#reckon();
    if (this.#claimed || this.#timer === undefined) return;
    this.#claimed = true;
    this.#gap = true;
    this.#note(this.#beat());
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    // A connection that ends from here on is no loss.
    this.#claimed = false;
    this.#listening = false;
    await this.#queue;
    await this.#options.registry.leave().catch(() => undefined);
  }

  #tick(): void {
    if (this.#silent >= silentLimit) this.#lose('own messages did not come back');
    this.#sendProbe();
    if (this.#beating === 0) this.#note(this.#beat());
  }

  #sendProbe(): void {
    this.#silent += 1;
    this.#options.probe(clockNow()).catch(() => undefined);
  }

  #lose(reason: string): void {
    if (!this.#claimed) return;
    this.#claimed = false;
    this.#listening = false;
    this.#options.log.warn(
      { reason },
      'Messages of other nodes may be missed; this node reads from the database until the connection is back',
    );
    this.#note(this.#beat());
  }

  /** One after the other: what is stored last is what is said last. */
  #beat(): Promise<void> {
    this.#beating += 1;
    const turn = this.#queue.then(async () => {
      const [sent, says] = [clockNow(), this.#claimed];
      await this.#take(sent, await this.#options.registry.beat(says));
      if (!says || !this.#claimed || this.#listening) return;
      this.#listening = true;
      this.#options.log.info({}, 'Messages of other nodes arrive again');
    });
    this.#queue = turn.then(
      () => this.#ended(),
      () => this.#ended(),
    );
    return turn;
  }

  #ended(): void {
    this.#beating -= 1;
  }

  async #take(sent: ClockReading, { missed, buried, ...reading }: Heartbeat): Promise<void> {
    if (buried > 0) this.#options.onBuried();
    // Who told of a change while the lease had ended did not have to wait for this node, nor could perhaps note that.
    const lapsed = this.#trueAt !== undefined && !isYounger(this.#trueAt, leaseMs);
    if (missed || lapsed || this.#gap) {
      this.#gap = false;
      this.#options.onGap();
    }
    await this.#versions?.take(reading);
    this.#beaten = sent;
    this.#reckon();
  }

  #reckon(): void {
    this.#trueAt = this.#heard && this.#beaten && earlier(this.#heard, this.#beaten);
  }

  /** An outage of the database is one line, however many heartbeats it lasts. */
  #note(beat: Promise<void>): void {
    beat.then(
      () => {
        this.#complained = false;
      },
      (error: unknown) => {
        if (!this.#complained)
          this.#options.log.warn(
            { err: error },
            'The heartbeat of this node could not be written; it trusts its memory again when it can',
          );
        this.#complained = true;
      },
    );
  }
}
