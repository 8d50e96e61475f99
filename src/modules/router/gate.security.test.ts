/**
 * Apps on two nodes: what one changes, the other knows when the call returns. In the reference a revoked app worked
 * for another 100 seconds, its secret lay in a shared cache in clear, and a name of that cache could be used as an
 * app (spec/router.md 5.4; CWE-613, https://cwe.mitre.org/data/definitions/613.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestDatabase } from '../../../test/support/database.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { createCaches } from '../../kernel/cache.ts';
import { system } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import { createBus } from '../../kernel/events/create-bus.ts';
import { createEvents } from '../../kernel/events/create-events.ts';
import { migrations as eventMigrations } from '../../kernel/events/migrations.ts';
import { createIdentity, noApp } from '../../kernel/identity.ts';
import { migrations } from './migrations.ts';
import { type Clients, createClients } from './services/clients.ts';
import { type ClientGate, createClientGate } from './services/gate.ts';

interface Node {
  readonly gate: ClientGate;
  readonly clients: Clients;
}

const closers: (() => Promise<void>)[] = [];
let database: Database;
let one: Node;
let two: Node;

async function start(opened: Database): Promise<Node> {
  const bus = await createBus({ database: opened, redis: undefined, log: silentLog });
  closers.unshift(() => bus.close());
  const caches = createCaches(bus);
  const identity = createIdentity();
  const gate = createClientGate({ database: opened, caches, identity, log: silentLog });
  const events = createEvents({ database: opened, bus, log: silentLog, metrics: noMetrics });
  return { gate, clients: createClients({ database: opened, events, gate }) };
}

beforeAll(async () => {
  const opened = await openTestDatabase({
    migrations: [
      { owner: 'events', migrations: eventMigrations },
      { owner: 'router', migrations },
    ],
  });
  closers.push(() => opened.close());
  database = opened.database;
  one = await start(database);
  two = await start(await opened.openAgain());
});
afterAll(async () => {
  for (const close of closers) await close();
});

const caller = system('test');
const admits = async (
  { gate }: Node,
  clientId: string | undefined,
  clientSecret?: string,
): Promise<boolean> => {
  try {
    return (await gate.admit({ ...noApp, clientId, clientSecret })) === clientId;
  } catch (error) {
    expect(error).toMatchObject({ status: 401, code: 'CLIENT_REFUSED' });
    return false;
  }
};

test('an app that is taken away, or gets a new secret, is refused on the other node at once', async () => {
  const app = await one.clients.create(caller, { platform: 'CLI' });
  expect([
    await admits(one, app.clientId, app.clientSecret),
    await admits(two, app.clientId, app.clientSecret),
  ]).toEqual([true, true]);
  const renewed = await one.clients.rotateSecret(caller, app._id, 0);
  expect([
    await admits(two, app.clientId, app.clientSecret),
    await admits(two, app.clientId, renewed.clientSecret),
  ]).toEqual([false, true]);
  await two.clients.remove(caller, app._id);
  expect([
    await admits(one, app.clientId, renewed.clientSecret),
    await admits(two, app.clientId, renewed.clientSecret),
  ]).toEqual([false, false]);
});

test('a known app is admitted without a promise and without a query', async () => {
  const app = await one.clients.create(caller, { platform: 'IOS' });
  await admits(one, app.clientId, app.clientSecret);
  expect(one.gate.admit({ ...noApp, clientId: app.clientId, clientSecret: app.clientSecret })).toBe(
    app.clientId,
  );
});

test('nothing but a registered id and its own secret gets in', async () => {
  const [app, other] = [
    await one.clients.create(caller, { platform: 'CLI' }),
    await one.clients.create(caller, { platform: 'CLI' }),
  ];
  for (const [id, secret] of [
    [undefined, app.clientSecret],
    [app.clientId, undefined],
    [app.clientId, ''],
    [app.clientId, other.clientSecret],
    [app.clientId.toUpperCase(), app.clientSecret],
    [`${app.clientId}'`, app.clientSecret],
    ['isProd', 'true'],
    ['0'.repeat(30), ''],
    [app._id, app.clientSecret],
  ] as const) {
    expect({ id, admitted: await admits(one, id, secret) }).toEqual({ id, admitted: false });
  }
});

test('no secret is stored', async () => {
  const app = await one.clients.create(caller, { platform: 'CLI' });
  const { rows } = await database.query({ text: 'select * from penstock.security_clients' });
  expect(JSON.stringify(rows)).not.toContain(app.clientSecret);
  const { rows: told } = await database.query({ text: 'select * from penstock.outbox' });
  expect(JSON.stringify(told)).not.toContain(app.clientSecret);
});
