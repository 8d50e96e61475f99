/** What listeners of a question are told, and what of it is kept for those who come back. */
import type { LiveRow } from '../../../kernel/operations/live-read.ts';
import type { Remembered } from './live-memory.ts';

/**
 * Why a listener has to ask anew: `lost`, it was away too long; `slow`, it did not take what it was told; `changed`, who
 * may see what was defined anew; `refused`, the question is not answered any more; `failed`, the platform could not read.
 */
export type GapReason = 'lost' | 'slow' | 'changed' | 'refused' | 'failed';

/** What listeners are told, made once for all of them. */
export type LiveMessage =
  | { readonly event: 'records'; readonly data: RecordsMessage }
  | { readonly event: 'value'; readonly data: ValueMessage }
  | { readonly event: 'gap'; readonly data: GapMessage };

interface RecordsMessage {
  readonly watch: string;
  readonly position: string;
  readonly changes: readonly Readonly<Record<string, unknown>>[];
}
interface ValueMessage {
  readonly watch: string;
  readonly position: string;
  readonly value: unknown;
}
interface GapMessage {
  readonly watch: string;
  readonly reason: GapReason;
  readonly error?: unknown;
}

/** The question has ended before this listener was let in: nothing is wrong with it, and it can be asked anew. */
export class QueryEnded extends Error {
  override readonly name = 'QueryEnded';
}

/** What a new listener begins with. */
export type LiveBeginning =
  | { readonly kind: 'records'; readonly position: string; readonly rows: readonly LiveRow[] }
  | { readonly kind: 'value'; readonly position: string; readonly json: string }
  /** What was told since the position that it knows. */
  | {
      readonly kind: 'missed';
      readonly position: string;
      readonly messages: readonly LiveMessage[];
    };

/** Messages that are kept, and their bytes. */
export const REMEMBERED = 64;
export const REMEMBERED_BYTES = 256 * 1_024;

interface Kept {
  readonly version: number;
  readonly message: LiveMessage;
  readonly bytes: number;
}

export class MissedMessages {
  readonly #shared: Remembered;
  #messages: Kept[] = [];
  #bytes = 0;

  /** `shared`: with all questions of the node. Where that is full, this one keeps nothing: who comes back asks anew. */
  constructor(shared: Remembered) {
    this.#shared = shared;
  }

  remember(version: number, message: LiveMessage, bytes: number): void {
    this.#messages.push({ version, message, bytes });
    this.#count(bytes);
    if (this.#shared.isFull) this.forget();
    while (this.#messages.length > REMEMBERED || this.#bytes > REMEMBERED_BYTES)
      this.#count(-(this.#messages.shift()?.bytes ?? this.#bytes));
  }

  forget(): void {
    this.#messages = [];
    this.#count(-this.#bytes);
  }

  #count(bytes: number): void {
    this.#bytes += bytes;
    this.#shared.add(bytes);
  }

  /** What came after a version, when the last one is `now`; nothing where that is not known any more. */
  since(version: number, now: number): readonly LiveMessage[] | undefined {
    const first = this.#messages[0]?.version ?? now + 1;
    if (!Number.isSafeInteger(version) || version > now || version < first - 1) return undefined;
    return this.#messages.filter((one) => one.version > version).map(({ message }) => message);
  }
}

/**
 * The messages with the records as they are read now: what was made with rights that the listener has lost since is not
 * told any more, neither records nor fields. Nothing where a record is not in the list now.
 */
export function asReadNow(
  messages: readonly LiveMessage[] | undefined,
  rows: readonly LiveRow[],
): readonly LiveMessage[] | undefined {
  if (!messages) return undefined;
  const now = new Map(rows.map(({ id, json }) => [id, json]));
  const readable = messages.map((message) => messageNow(message, now));
  return readable.every((message) => message !== undefined) ? readable : undefined;
}

function messageNow(
  message: LiveMessage,
  now: ReadonlyMap<string, string>,
): LiveMessage | undefined {
  if (message.event !== 'records') return undefined;
  const changes = message.data.changes.map((change) => {
    if (change.kind === 'removed') return change;
    const json = now.get(String(change.id));
    return json === undefined ? undefined : { ...change, record: JSON.parse(json) as unknown };
  });
  return changes.every((change) => change !== undefined)
    ? { event: 'records', data: { ...message.data, changes } }
    : undefined;
}
