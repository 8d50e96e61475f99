/**
 * One question that somebody listens to, asked for all who would be answered the same. It is read again when something
 * changed that may matter to it, one reading at a time, and what is different then is told.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AudienceChanged,
  type LiveRead,
  type LiveRow,
  type MadeFrom,
} from '../../../kernel/operations/live-read.ts';
import { asKnown, describeError } from '../errors.ts';
import { bytesOf, type ListChange, ListState, type OfferedChange, toldOf } from './list-state.ts';
import type { Remembered, Sized } from './live-memory.ts';
import {
  asReadNow,
  type GapReason,
  type LiveBeginning,
  type LiveMessage,
  MissedMessages,
  QueryEnded,
  REMEMBERED,
  REMEMBERED_BYTES,
} from './live-messages.ts';
import { type Hearer, tellAll } from './live-telling.ts';
import { pauseAfter } from './live-turns.ts';

export interface LiveListener extends Hearer {
  /** It is one of the listeners from this moment on. */
  entered(query: LiveQuery): void;
  /** The query has ended, after a `gap`. */
  ended(): void;
}

export interface LiveQueryParts {
  readonly read: LiveRead;
  /** What is kept for those who come back, of all questions. */
  readonly remembered: Remembered;
  /** Runs a reading when it is its turn, on an account of its own. */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** It has ended; nothing must be asked of it any more. */
  onEnd(): unknown;
  /** Listeners were told of a change, so many milliseconds after it happened. */
  onTold(lagMs: number): void;
  readonly log: (error: unknown) => void;
}

/** Characters of a value that take as much as a record of a list. */
const VALUE_OF_RECORD = 512;
/** Readings that fail one after the other until listeners are told to ask anew. */
const MAX_FAILURES = 5;
const FAILURE_PAUSE_MS = 500;

export class LiveQuery implements Sized {
  readonly id = randomUUID();
  readonly read: LiveRead;
  readonly listeners = new Set<LiveListener>();
  /** From what the question was made for those for whom it was made from something. */
  readonly #madeFrom = new Map<LiveListener, MadeFrom>();
  /** When the last listener left, on the clock of `performance.now()`. */
  idleSince = performance.now();
  readonly #parts: LiveQueryParts;
  #list: ListState;
  /** When something was read last, on the clock of `performance.now()`. */
  #readAt = 0;
  #value: string | undefined;
  #version = 0;
  readonly #missed: MissedMessages;
  #changed: Set<string> | 'all' | undefined = 'all';
  /** When the first change happened that listeners have not been told of; ms since 1970. */
  #since: number | undefined;
  #running: Promise<void> | undefined;
  #ended = false;
  #begun = false;
  readonly #initialReaders: ((begin: InitialRead) => void)[] = [];
  #publishing: Promise<void> | undefined;
  /** Ends the pause between two readings. */
  #hurry: () => void = () => undefined;

  constructor(parts: LiveQueryParts) {
    this.read = parts.read;
    this.#parts = parts;
    this.#missed = new MissedMessages(parts.remembered);
    this.#list = new ListState(parts.read.kind === 'rows' ? parts.read.rows.order : undefined);
  }

  get ended(): boolean {
    return this.#ended;
  }

  get asker(): string {
    return this.read.asker ?? '';
  }

  get records(): number {
    const { read } = this;
    if (read.kind === 'value') return 1 + (this.#value?.length ?? 0) / VALUE_OF_RECORD;
    return this.#begun ? this.#list.size : read.rows.limit;
  }

  has(id: string): boolean {
    return this.#list.has(id);
  }

  /** These records changed, or anything may have; `since`: when the first of it happened, in ms since 1970. */
  touch(ids: readonly string[] | 'all', since?: number): void {
    if (this.#ended) return;
    this.#since ??= since;
    if (ids === 'all' || this.#changed === 'all') this.#changed = 'all';
    else this.#changed = new Set([...(this.#changed ?? []), ...ids]);
    this.#running ??= this.#work();
  }

  /** The same with the records: where nothing was read since they were, and the list says by itself what they change, that is told. */
  offer({ asked, since, ...offered }: OfferedChange): void {
    const { read } = this;
    const isCurrent = this.#begun && this.#running === undefined && this.#readAt < asked;
    const next =
      isCurrent && read.kind === 'rows' && read.rows.order
        ? this.#list.with(offered, read.rows.limit)
        : undefined;
    if (!next) this.touch(offered.ids, since);
    else if (!this.#ended && next.changes.length > 0) {
      this.#list = next.list;
      this.#running = this.#tellOffered(next.changes, since);
    }
  }

  /** What was touched meanwhile is read afterwards. */
  async #tellOffered(changes: readonly ListChange[], since: number): Promise<void> {
    try {
      await this.#publishChanges(changes);
      if (this.listeners.size > 0) this.#parts.onTold(Date.now() - since);
    } catch (error) {
      this.#parts.log(error);
      this.#changed = 'all';
    }
    await this.#work();
  }

  /** From now on the question ends for this listener, who will join, when the record changes. */
  expect(listener: LiveListener, madeFrom: MadeFrom): void {
    this.#madeFrom.set(listener, madeFrom);
  }

  /** Lets a listener in, who has been admitted. Rejects as the reading does, and with `QueryEnded`. */
  async join(listener: LiveListener, since: string | undefined): Promise<LiveBeginning> {
    const isExpected = this.#madeFrom.has(listener);
    const isOver = (): boolean => isExpected && !this.#madeFrom.has(listener);
    // Who comes back while something is being told must not hear it twice.
    await this.#publishing;
    if (this.#ended || isOver()) throw new QueryEnded();
    const missed = this.#missedSince(since);
    if (missed && this.read.rightsOf === undefined) {
      this.#enter(listener);
      return { kind: 'missed', position: this.#position(), messages: missed };
    }
    const { promise, resolve, reject } = Promise.withResolvers<LiveBeginning>();
    this.#initialReaders.push((begin) => {
      if (begin.error !== undefined) return reject(begin.error);
      if (isOver()) return reject(new QueryEnded());
      this.#enter(listener);
      resolve(this.#beginning(begin, missed && since));
    });
    this.touch('all');
    this.#hurry();
    return promise;
  }

  /** What somebody begins with who has asked before this reading; `since`: they come back. */
  #beginning({ rows, json }: InitialRead, since: string | undefined): LiveBeginning {
    const position = this.#position();
    if (!rows) return { kind: 'value', position, json: json ?? 'null' };
    const messages = asReadNow(this.#missedSince(since), rows);
    return messages ? { kind: 'missed', position, messages } : { kind: 'records', position, rows };
  }

  #missedSince(since: string | undefined): readonly LiveMessage[] | undefined {
    const [id, text = ''] = since?.split('.', 2) ?? [];
    if (id !== this.id || !this.#begun) return undefined;
    return this.#missed.since(Number(text), this.#version);
  }

  #enter(listener: LiveListener): void {
    this.listeners.add(listener);
    listener.entered(this);
  }

  leave(listener: LiveListener): void {
    this.listeners.delete(listener);
    this.#madeFrom.delete(listener);
    if (this.listeners.size === 0) this.idleSince = performance.now();
  }

  /** Those for whom the question was made from one of these records have to ask anew; to others it is what it was. */
  endFor(schema: string, ids: readonly string[]): void {
    if (this.read.madeFrom?.schema !== schema) return;
    for (const [listener, { id }] of [...this.#madeFrom]) {
      if (!ids.includes(id)) continue;
      const isHere = this.listeners.has(listener);
      this.leave(listener);
      if (!isHere) continue;
      listener.tell({ event: 'gap', data: { watch: this.id, reason: 'changed' } });
      listener.ended();
    }
  }

  /** Every listener has to ask anew. */
  end(reason: GapReason, error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#missed.forget();
    this.#parts.onEnd();
    const about = error === undefined ? {} : { error: describeError(error) };
    const message = { event: 'gap', data: { watch: this.id, reason, ...about } } as const;
    for (const begin of this.#initialReaders.splice(0)) begin({ error: error ?? new QueryEnded() });
    const listeners = [...this.listeners];
    this.listeners.clear();
    this.#madeFrom.clear();
    for (const listener of listeners) {
      listener.tell(message);
      listener.ended();
    }
  }

  #position(): string {
    return `${this.id}.${this.#version}`;
  }

  async #work(): Promise<void> {
    let failures = 0;
    // What was touched in this turn of the loop is read together.
    if (this.#changed !== undefined) await sleep(0);
    while (this.#changed !== undefined && !this.#ended) {
      const began = performance.now();
      const changed = this.#changed;
      const [since, version] = [this.#since, this.#version];
      this.#changed = undefined;
      this.#since = undefined;
      try {
        await this.#parts.run(() => this.#readAgain(changed));
        failures = 0;
        if (since !== undefined && this.#version !== version && this.listeners.size > 0)
          this.#parts.onTold(Date.now() - since);
      } catch (error) {
        failures += 1;
        this.#failed(error, failures);
        await sleep(FAILURE_PAUSE_MS);
      }
      this.#readAt = performance.now();
      if (this.#changed !== undefined && !this.#ended)
        await this.#pause(pauseAfter(this.read.kind, performance.now() - began));
    }
    this.#running = undefined;
  }

  /** Whoever waits for a first answer does not wait for the pace of those who have one. */
  async #pause(ms: number): Promise<void> {
    if (this.#initialReaders.length > 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#hurry = resolve;
    await promise;
    clearTimeout(timer);
  }

  #failed(error: unknown, failures: number): void {
    if (error instanceof AudienceChanged) this.end('changed');
    else if (asKnown(error).status < 500) this.#refuse(error);
    else if (failures >= MAX_FAILURES) {
      this.#parts.log(error);
      this.end('failed', error);
    } else this.#changed = 'all';
  }

  /** The question is not answered any more: what was shown goes, whatever it was. */
  #refuse(error: unknown): void {
    const changes = this.#list.replace([]);
    if (changes.length > 0)
      void this.#publish(this.#recordsMessage(changes)).then(() => this.end('refused', error));
    else this.end('refused', error);
  }

  async #readAgain(changed: ReadonlySet<string> | 'all'): Promise<void> {
    const initialReaders = this.#initialReaders.length;
    const { read } = this;
    if (read.kind === 'value') {
      const json = await read.value();
      if (json !== this.#value) {
        this.#value = json;
        await this.#tell({
          event: 'value',
          data: { watch: this.id, position: this.#next(), value: JSON.parse(json) },
        });
      }
      return this.#begin(initialReaders, { json });
    }
    const { rows } = read;
    const ids = changed === 'all' ? undefined : [...changed];
    if (ids && rows.byId && this.#list.size < rows.limit && initialReaders === 0) {
      const changes = this.#list.update(ids, await rows.among(ids));
      if (this.#list.size <= rows.limit) return this.#publishChanges(changes);
      // More than the list holds: which of them are the first, a whole reading says.
      await this.#publishChanges(changes);
    }
    const all = await rows.all();
    await this.#publishChanges(this.#list.replace(all));
    this.#begin(initialReaders, { rows: all });
  }

  /** Those who asked before the reading began, once those who were there know what they will know. */
  #begin(count: number, beginner: InitialRead): void {
    this.#begun = true;
    for (const begin of this.#initialReaders.splice(0, count)) begin(beginner);
  }

  #next(): string {
    this.#version += 1;
    return this.#position();
  }

  #recordsMessage(changes: readonly ListChange[]): LiveMessage {
    const data = { watch: this.id, position: this.#next(), changes: changes.map(toldOf) };
    return { event: 'records', data };
  }

  async #publishChanges(changes: readonly ListChange[]): Promise<void> {
    // Nobody has been told of anything yet: there is no difference to be told.
    if (changes.length === 0 || !this.#begun) return;
    await this.#publish(this.#recordsMessage(changes), bytesOf(changes));
  }

  async #tell(message: LiveMessage): Promise<void> {
    if (this.#begun) await this.#publish(message, REMEMBERED_BYTES / REMEMBERED);
  }

  #publish(message: LiveMessage, bytes = 0): Promise<void> {
    if (!this.#ended) this.#missed.remember(this.#version, message, bytes);
    const publishing = tellAll(this.listeners, message);
    this.#publishing = publishing;
    return publishing;
  }
}

interface InitialRead {
  readonly rows?: readonly LiveRow[];
  readonly json?: string;
  readonly error?: unknown;
}
