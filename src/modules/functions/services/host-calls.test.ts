/** What one run may ask of the platform, and what ends with it. */
import { expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Limits } from '../../../kernel/limits/limits.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationRegistry } from '../../../kernel/operations/registry.ts';
import { defaultRequestSettings } from '../../../kernel/pipeline/request-limits.ts';
import { onAccount, RequestAccount } from '../../../kernel/request-account/request-account.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { PoolEnd } from '../engine/pool.ts';
import { databaseCalls } from './calls/database.ts';
import { operationCalls } from './calls/operations.ts';
import { createHostCalls, type HostCall, RunScope } from './host-calls.ts';

const schemas = { get: () => undefined } as unknown as SchemaRegistry;

const scopeOf = (inputs: object = {}): RunScope =>
  new RunScope({
    executionId: newId(),
    function: { _id: newId(), name: 'one', inputs } as unknown as StoredFunction,
    version: 1,
    caller: { kind: 'anonymous' },
    extra: undefined,
  });

/** `ctx.call` where the platform has this operation alone. */
function callWith(operation: Operation): HostCall {
  const operations = {
    all: () => [{ operation }],
    onChange: () => () => undefined,
  } as unknown as OperationRegistry;
  const call = operationCalls({ operations, limits: {} as Limits, log: silentLog }).get('call');
  if (!call) throw new Error('There is no call');
  return call;
}

it('tells an operation that a run has called when the run has ended', async () => {
  const signals: AbortSignal[] = [];
  const operation = defineOperation({
    id: 'things.wait',
    surface: 'client',
    access: 'public',
    limit: 'standard',
    method: 'GET',
    path: '/things',
    input: {},
    output: TextResult,
    summary: 'Wait',
    handler({ signal }) {
      signals.push(signal);
      return 'waited';
    },
  });
  const call = callWith(operation);
  const [ended, other] = [scopeOf(), scopeOf()];
  await call(ended, { args: ['things.wait'] });
  await call(other, { args: ['GET /things'] });
  expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  await ended.close();
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  await other.close();
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
});

it('covers capabilities part by part, and with a star any part', () => {
  const scope = scopeOf({ capabilities: ['database:read:*', 'secrets:KEY'] });
  for (const listed of ['database:read:Post', 'database:read:User', 'secrets:KEY'])
    expect(() => scope.require(listed)).not.toThrow();
  for (const unlisted of ['database:write:Post', 'secrets:OTHER', 'fetch:example.org'])
    expect(() => scope.require(unlisted)).toThrow(expect.objectContaining({ status: 403 }));
  expect(() => scopeOf().require('fetch:example.org')).not.toThrow();
});

it('masks secrets that the run has read in every text of its end, but not words that are too short', () => {
  const scope = scopeOf();
  scope.noteSecret('hunter2-hunter2');
  scope.noteSecret('abc');
  const text = 'abc hunter2-hunter2 \0';
  const end: PoolEnd = {
    outcome: 'error',
    text: '',
    cpuMs: 0,
    memoryBytes: 0,
    logs: [{ level: 'log', text, at: 1 }],
    error: { name: text, message: text, stack: text, code: text },
  };
  const masked = 'abc ******** \ufffd';
  expect(scope.masked(end)).toMatchObject({
    logs: [{ text: masked }],
    error: { name: masked, message: masked, stack: masked, code: masked },
  });
});

it('undoes a transaction that is open only when its run has ended', async () => {
  const isOpen = Promise.withResolvers<void>();
  let end = 'none';
  const database = {
    inTransaction: () => false,
    async transaction(work: () => Promise<void>) {
      await isOpen.promise;
      end = await work().then(
        () => 'committed',
        () => 'undone',
      );
    },
  } as unknown as Database;
  const begin = databaseCalls({ database, records: {} as RecordStore, schemas }).get('db.begin');
  const scope = scopeOf();
  const begun = begin?.(scope, {});
  await scope.close();
  isOpen.resolve();
  await begun;
  expect([end, scope.transactions.size]).toEqual(['undone', 0]);
});

it('masks the longer of two secrets that begin alike, in a later run of the function too', () => {
  const scope = scopeOf();
  scope.noteSecret('hunter2');
  scope.noteSecret('hunter2-and-more');
  const later = new RunScope(scope.facts);
  expect(later.maskedLines([{ level: 'log', text: 'hunter2-and-more', at: 1 }])).toEqual([
    { level: 'log', text: '********', at: 1 },
  ]);
});

it('masks a secret in all runs of one request, whoever of them has read it', async () => {
  const line = (text: string) => ({ level: 'log', text, at: 1 }) as const;
  const masked = (scope: RunScope) => scope.maskedLines([line('hunter2-hunter2')])[0]?.text;
  const account = () => new RequestAccount({ ...defaultRequestSettings, milliseconds: 60_000 });
  const one = account();
  const within = (work: () => RunScope): RunScope =>
    onAccount(one.until(performance.now() + 1_000), work);
  const before = within(() => scopeOf());
  const reader = within(() => scopeOf());
  reader.noteSecret('hunter2-hunter2');
  const after = within(() => scopeOf());
  const other = onAccount(account(), () => scopeOf());
  expect([before, reader, after, other].map(masked)).toEqual([
    ...['********', '********', '********', 'hunter2-hunter2'],
  ]);
  // Code keeps values between runs.
  expect(masked(new RunScope(after.facts))).toBe('********');
});

it('takes large arguments in a turn of their own, and not too many values', async () => {
  const seen: number[] = [];
  const calls = createHostCalls(
    { inTransaction: () => false } as unknown as Database,
    new Map<string, HostCall>([
      ['count', async (_scope, { args = [] }) => seen.push((args[0] as unknown[]).length)],
    ]),
  );
  const given = (many: number) => JSON.stringify({ args: [Array.from({ length: many }, () => 0)] });
  const order: string[] = [];
  setImmediate(() => order.push('others'));
  const large = calls.call(scopeOf(), 'count', given(300_000)).then(() => order.push('large'));
  await large;
  expect([seen, order[0]]).toEqual([[300_000], 'others']);
  await expect(calls.call(scopeOf(), 'count', given(600_000))).rejects.toMatchObject({
    ...{ status: 413, message: expect.stringContaining('count is called with') },
  });
});

it('masks the beginning of a secret where a bound has cut the text in the middle of it', () => {
  const scope = scopeOf();
  scope.noteSecret('hunter2-hunter2');
  const line = (text: string) => ({ level: 'log', text, at: 1 }) as const;
  const cut = line('the key is hunter2-hun');
  const end = { outcome: 'ok', text: '', cpuMs: 0, memoryBytes: 0 } as const;
  const error = { name: 'Error', message: 'wrong: hunter2' };
  expect(scope.masked({ ...end, error, logs: [line('hunter2'), cut] })).toMatchObject({
    logs: [{ text: 'hunter2' }, { text: 'the key is ********' }],
    error: { message: 'wrong: ********' },
  });
  expect(scope.maskedLines([line('they hunt')])).toEqual([line('they hunt')]);
});

it('knows of a run that it has only read', async () => {
  const records = {
    select: async () => '{"documents":[],"count":0}',
    get: async () => ({ json: '{}' }),
    create: async () => ({ json: '{}' }),
  } as unknown as RecordStore;
  const operation = (id: string, live: boolean) =>
    defineOperation({
      ...{ id, surface: 'client', access: 'public', limit: 'standard', method: 'GET' },
      ...{ path: `/${id}`, input: {}, output: TextResult, summary: 'Read' },
      ...(live && { live: () => Promise.reject(new Error('nobody listens')) }),
      handler: () => 'read',
    });
  const operations = {
    all: () =>
      [operation('list', true), operation('functions.run', false)].map((one) => ({
        operation: one,
      })),
    onChange: () => () => undefined,
  } as unknown as OperationRegistry;
  const database = { inTransaction: () => false } as unknown as Database;
  const calls = createHostCalls(
    database,
    new Map([
      ...databaseCalls({ database, records, schemas }),
      ...operationCalls({ operations, limits: {} as Limits, log: silentLog }),
      ['fetch', async () => null],
    ]),
  );
  const after = async (...asked: readonly (readonly [name: string, ...args: unknown[]])[]) => {
    const scope = scopeOf();
    for (const [name, ...args] of asked) await calls.call(scope, name, JSON.stringify({ args }));
    return scope.hasOnlyRead;
  };
  const reads = [
    ['db.find', 'A', {}],
    ['db.get', 'A', 'x'],
    ['call', 'list'],
  ] as const;
  expect([await after(), await after(...reads)]).toEqual([true, true]);
  for (const other of [['db.create', 'A', {}], ['call', 'functions.run'], ['fetch']] as const)
    expect([other, await after(...reads, other), await after(other, ...reads)]).toEqual([
      ...[other, false, false],
    ]);
});
