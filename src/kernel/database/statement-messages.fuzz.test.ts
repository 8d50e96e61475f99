/**
 * What a server may send, cut anywhere: each statement of a shared connection gets its own answer or an error, none gets
 * that of another, and none waits for ever. A scripted server on a real socket plays the other side, so every cut and every
 * end can be had; `shared-statement.test.ts` asks PostgreSQL.
 */
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { clientConfig, GuardedClient } from './connection.ts';
import { isConnectionLoss } from './failures.ts';
import { UndoneError } from './shared-statement.ts';
import { MessageReader, requireFields } from './statement-messages.ts';
import { StatementSender } from './statement-sender.ts';

const RUNS = 150;
const SYNC = 0x53;

/* Messages of the server (PostgreSQL manual, "Message Formats"). */

const number16 = (value: number): Buffer => {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
};
const number32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const word = (text: string): Buffer => Buffer.from(`${text}\0`);
const message = (type: string, ...parts: readonly Buffer[]): Buffer => {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), number32(content.length + 4), content]);
};

const parsed = message('1');
const bound = message('2');
const ready = message('Z', Buffer.from('I'));
const column = (name: string): Buffer =>
  Buffer.concat([
    word(name),
    number32(0),
    number16(0),
    number32(25),
    number16(65_535),
    number32(-1),
    number16(0),
  ]);
const described = message('T', number16(1), column('value'));
const row = (value: string | null): Buffer =>
  value === null
    ? message('D', number16(1), number32(-1))
    : message('D', number16(1), number32(Buffer.byteLength(value)), Buffer.from(value));
const completed = (count: number): Buffer => message('C', word(`SELECT ${count}`));
const fields = (severity: string, code: string): Buffer =>
  Buffer.concat([
    word(`S${severity}`),
    word(`V${severity}`),
    word(`C${code}`),
    word('Mtold'),
    Buffer.from([0]),
  ]);
const failed = message('E', fields('ERROR', '22012'));
const ended = message('E', fields('FATAL', '57P01'));
/** What may come at any time, between any two others. */
const asides = [
  message('N', fields('NOTICE', '00000')),
  message('S', word('TimeZone'), word('UTC')),
  message('A', number32(7), word('a channel'), word('a payload')),
];

/** What one statement brings: rows, or an error. */
type Answer = readonly (string | null)[] | 'error';

interface Script {
  readonly answers: readonly Answer[];
  /** Statements that are one transaction, by the place of the first. */
  readonly together: boolean;
  /** Before which messages an aside comes, and which. */
  readonly asides: readonly number[];
  /** Sizes of the pieces that are sent, over and over. */
  readonly pieces: readonly number[];
  /** The share of the bytes after which the connection ends; 1 and more: it does not. */
  readonly endsAfter: number;
  /** `told`: the server says so; `broken`: it goes on with what is no message, and stays. */
  readonly end: 'silent' | 'told' | 'broken';
}

/** All that the server answers to a transaction of these. Nothing comes after an error but the end. */
function answerTo(answers: readonly Answer[], isKnown: () => boolean): Buffer[] {
  const messages: Buffer[] = [];
  for (const answer of answers) {
    const known = isKnown();
    if (!known) messages.push(parsed);
    messages.push(bound);
    if (!known) messages.push(described);
    if (answer === 'error') {
      messages.push(failed);
      break;
    }
    messages.push(...answer.map(row), completed(answer.length));
  }
  return [...messages, ready];
}

/** Transactions as the client makes them: up to four of one turn. */
function batches({ answers, together }: Script): Answer[][] {
  if (!together) return answers.map((answer) => [answer]);
  const all: Answer[][] = [];
  for (let at = 0; at < answers.length; at += 4) all.push(answers.slice(at, at + 4));
  return all;
}

function messagesOf(script: Script): Buffer[] {
  const messages = batches(script).flatMap((batch) => answerTo(batch, () => false));
  let at = 0;
  return messages.flatMap((one) => {
    const which = script.asides[at % Math.max(1, script.asides.length)];
    at += 1;
    const aside = which === undefined ? undefined : asides[which];
    return aside ? [aside, one] : [one];
  });
}

/** What arrives, as far as it does. What is no message comes where one would begin. */
function bytesOf(script: Script): Buffer {
  const { endsAfter, end } = script;
  const messages = messagesOf(script);
  const whole = Buffer.concat(messages);
  if (endsAfter >= 1) return whole;
  if (end === 'broken')
    return Buffer.concat([
      ...messages.slice(0, Math.floor(messages.length * endsAfter)),
      Buffer.from([0x44, 0, 0, 0, 3, 1]),
    ]);
  const told = end === 'told' ? ended : Buffer.alloc(0);
  return Buffer.concat([whole.subarray(0, Math.floor(whole.length * endsAfter)), told]);
}

/* The scripted server. */

let folder: string;
let server: Server;
let script: Script | undefined;

/** Counts the transactions that have arrived, by their last message. */
function syncsIn(state: { rest: Buffer }, bytes: Buffer): number {
  let all = Buffer.concat([state.rest, bytes]);
  let syncs = 0;
  while (all.length >= 5 && all.length >= 1 + all.readInt32BE(1)) {
    if (all[0] === SYNC) syncs += 1;
    all = all.subarray(1 + all.readInt32BE(1));
  }
  state.rest = all;
  return syncs;
}

async function play(socket: Socket, current: Script): Promise<void> {
  const bytes = bytesOf(current);
  let [at, turn] = [0, 0];
  while (at < bytes.length) {
    const size = current.pieces[turn % current.pieces.length] ?? bytes.length;
    socket.write(bytes.subarray(at, at + size));
    at += size;
    turn += 1;
    // Small pieces arrive one by one only where each has a turn of its own.
    if (turn < 400) await new Promise((resolve) => setImmediate(resolve));
  }
  if (current.endsAfter < 1 && current.end !== 'broken') socket.end();
}

function serve(socket: Socket): void {
  const state = { rest: Buffer.alloc(0) };
  let isStarted = false;
  let syncs = 0;
  socket.on('error', () => undefined);
  socket.on('data', (bytes) => {
    if (!isStarted) {
      isStarted = true;
      const key = message('K', number32(1), number32(2));
      socket.write(Buffer.concat([message('R', number32(0)), key, ready]));
      return;
    }
    const current = script;
    if (!current) return;
    syncs += syncsIn(state, bytes as Buffer);
    if (syncs >= batches(current).length) {
      syncs = Number.NEGATIVE_INFINITY;
      void play(socket, current);
    }
  });
}

beforeAll(async () => {
  folder = await temporaryFolder('wire');
  server = createServer(serve);
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve));
});
afterAll(async () => {
  await new Promise((resolve) => server.close(resolve));
  await removeFolder(folder);
});

/* What a client makes of it. */

type Outcome = readonly (string | null)[] | Error;

async function outcomesOf(current: Script): Promise<Outcome[]> {
  script = current;
  const target = { host: folder, port: 5432, user: 'one', database: 'one' };
  const modes = { preparedStatements: false, pipelining: true };
  const client = new GuardedClient(clientConfig({ target, modes, role: 'fuzz', pipeline: true }));
  client.on('error', () => undefined);
  await client.connect();
  const sender = new StatementSender(client);
  const outcomes = await Promise.all(
    current.answers.map(
      (_, i) =>
        new Promise<Outcome>((resolve) => {
          const query = { text: `select ${i}`, name: '', values: [] };
          sender.send(
            query,
            (error, result) =>
              resolve(error ?? (result?.rows ?? []).map(({ value }) => value as string | null)),
            current.together,
          );
        }),
    ),
  );
  client.end().catch(() => undefined);
  return outcomes;
}

const texts = fc.oneof(
  fc.constant(null),
  fc.constant(''),
  fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replaceAll('\0', '')),
  fc.constant('a long one, äöü 世界 '.repeat(40)),
);
const scripts: fc.Arbitrary<Script> = fc.record({
  answers: fc.array(
    fc.oneof(
      { weight: 4, arbitrary: fc.array(texts, { maxLength: 4 }) },
      { weight: 1, arbitrary: fc.constant('error' as const) },
    ),
    { minLength: 1, maxLength: 9 },
  ),
  together: fc.boolean(),
  asides: fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 5 }),
  pieces: fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 6 }),
  endsAfter: fc.oneof(fc.constant(1), fc.double({ min: 0, max: 0.999, noNaN: true })),
  end: fc.constantFrom('silent', 'told', 'broken'),
});

/** An error that fits: of its own, of one that was undone with it, or of the connection. */
function isFitting(error: Error, { endsAfter }: Script, isCulprit: boolean, isBeside: boolean) {
  if (error instanceof UndoneError) return isBeside;
  if ((error as { code?: string }).code === '22012') return isCulprit;
  return endsAfter < 1 && isConnectionLoss(error);
}

/** Each has its own rows, or such an error. */
function problemsOf(current: Script, outcomes: readonly Outcome[]): string[] {
  const size = current.together ? 4 : 1;
  return outcomes.flatMap((outcome, i) => {
    const first = i - (i % size);
    const failing = current.answers.slice(first, first + size).indexOf('error');
    const isCulprit = failing >= 0 && i === first + failing;
    const fits =
      outcome instanceof Error
        ? isFitting(outcome, current, isCulprit, failing >= 0 && !isCulprit)
        : failing < 0 && JSON.stringify(outcome) === JSON.stringify(current.answers[i]);
    return fits ? [] : [`${i}: ${outcome instanceof Error ? outcome : JSON.stringify(outcome)}`];
  });
}

it('gives each statement its own answer or an error, however it is cut and wherever it ends', async () => {
  await fc.assert(
    fc.asyncProperty(scripts, async (current) => {
      expect(problemsOf(current, await outcomesOf(current))).toEqual([]);
    }),
    { numRuns: RUNS },
  );
});

it('gives the same for every place of a single cut', async () => {
  const answers: readonly Answer[] = [['a', null], [], ['b'], 'error', ['c']];
  const current = {
    answers,
    together: false,
    end: 'silent' as const,
    asides: [0, 1, 2, 5],
    endsAfter: 1,
  };
  const whole = bytesOf({ ...current, pieces: [1] });
  const seen: string[] = [];
  for (let cut = 1; cut < whole.length; cut += 1) {
    const halves = [whole.subarray(0, cut), whole.subarray(cut)];
    const types: number[] = [];
    const contents: Buffer[] = [];
    const reader = new MessageReader((type, bytes, from, to) => {
      types.push(type);
      contents.push(Buffer.from(bytes.subarray(from, to)));
    });
    for (const half of halves) {
      // The memory of a socket is used again for what comes next.
      const memory = Buffer.from(half);
      reader.read(memory);
      memory.fill(0xff);
    }
    seen.push(JSON.stringify([types, Buffer.concat(contents).toString('hex')]));
  }
  expect(new Set(seen).size).toBe(1);
});

it.each([1, 8_192, 20_000, 65_536])(
  'tells of messages of any size as they were, in pieces of %i bytes',
  (size) => {
    const sent = [5, 70_000, 9_000, 0, 16_380, 40_000].map((length, i) =>
      Buffer.alloc(length, i + 1),
    );
    const bytes = Buffer.concat(sent.map((content) => message('D', content)));
    const seen: Buffer[] = [];
    const reader = new MessageReader((_type, memory, from, to) => {
      seen.push(Buffer.from(memory.subarray(from, to)));
    });
    const memory = Buffer.alloc(size);
    for (let at = 0; at < bytes.length; at += size)
      reader.read(memory.subarray(0, bytes.copy(memory, 0, at, at + size)));
    expect(seen.map(({ length }) => length)).toEqual(sent.map(({ length }) => length));
    expect(Buffer.concat(seen).equals(Buffer.concat(sent))).toBe(true);
  },
);

it.each([
  ['no end', 'SERROR\0'],
  ['a text without an end', 'SERR'],
  ['a letter alone', 'SERROR\0C'],
  ['nothing in it', ''],
])(
  'refuses an error and a notice with %s, for whose end the driver would look for ever',
  (_what, content) => {
    for (const type of ['E', 'N']) {
      const bytes = message(type, Buffer.from(content));
      // What follows in the same memory does not end it.
      const memory = Buffer.concat([bytes, ready]);
      const reader = new MessageReader(requireFields);
      expect(() => reader.read(memory)).toThrow('no message');
    }
    const reader = new MessageReader(requireFields);
    reader.read(Buffer.concat([failed, ...asides, ended]));
  },
);

it.each([0, 3, 0x40000001, 0xffffffff])('refuses a message of the length %i', (length) => {
  const header = Buffer.from([0x44, 0, 0, 0, 0]);
  header.writeUInt32BE(length, 1);
  const read = () => {
    const reader = new MessageReader(() => undefined);
    for (const byte of [...parsed, ...header]) reader.read(Buffer.from([byte]));
  };
  expect(read).toThrow('no message');
});
