import Type from 'typebox';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createTestBuses, type TestBus } from '../../../test/support/buses.ts';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { silentLog } from '../../../test/support/quiet.ts';
import { type AdminCaller, system } from '../caller.ts';
import type { PenstockError } from '../errors.ts';
import { createHealth, type Health } from '../health.ts';
import { migrations as keyringMigrations } from '../security/migrations.ts';
import { openSecretBox } from '../security/secret-box.ts';
import { type ConfigHandle, defineConfig, harmless, sensitive } from './config-definition.ts';
import type { ConfigService } from './config-service.ts';
import { createConfigService } from './create-config-service.ts';
import { migrations } from './migrations.ts';

const caller = system('test');
const plainAdmin: AdminCaller = {
  kind: 'admin',
  via: 'jwt',
  adminId: 'a',
  username: 'a',
  isSuperAdmin: false,
};

const definition = defineConfig({
  schema: Type.Object({
    active: Type.Boolean({ default: true, description: 'On' }),
    port: Type.Integer({
      ...harmless,
      minimum: 1,
      maximum: 65_535,
      default: 25,
      description: 'Port',
    }),
    mail: Type.Object({
      host: Type.String({ default: 'localhost', description: 'Host' }),
      password: sensitive({ description: 'Password' }),
      tags: Type.Array(Type.String(), { ...harmless, default: ['a'], description: 'Tags' }),
    }),
    providers: Type.Array(
      Type.Object({ name: Type.String(), key: sensitive({ description: 'Key' }) }),
      {
        default: [],
        description: 'Providers',
      },
    ),
    labels: Type.Record(Type.String(), Type.Unknown(), { default: {}, description: 'Anything' }),
  }),
  check: ({ port, active }) =>
    active && port === 666 ? [{ path: 'port', rule: 'reserved', message: 'is reserved' }] : [],
});

interface Node {
  readonly config: ConfigService;
  readonly handle: ConfigHandle<{
    port: number;
    mail: { host: string; password: string; tags: string[] };
    providers: { key: string }[];
  }>;
  readonly bus: TestBus;
  readonly health: Health;
}

describe('the configuration service', () => {
  let opened: OpenTestDatabase;
  let nodes: readonly Node[];
  let module = 'mod0';
  let serial = 0;

  const startNode = async (bus: TestBus): Promise<Node> => {
    const secrets = await openSecretBox(opened.database, { masterKey: 'a key for tests' });
    const health = createHealth();
    const config = await createConfigService({
      database: opened.database,
      bus,
      secrets,
      log: silentLog,
      health,
    });
    return { config, bus, health, handle: await config.register(module, definition) };
  };
  const stored = async (): Promise<string> =>
    (
      await opened.database.query<{ text: string }>({
        text: 'select config::text as text from penstock.config where name = $1',
        values: [module],
      })
    ).rows[0]?.text ?? '';
  const first = (): Node => nodes[0]!;
  const failureOf = async (work: Promise<unknown>): Promise<PenstockError> =>
    work.then(
      () => Promise.reject(new Error('it worked')),
      (e) => e,
    );

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'config', migrations },
        { owner: 'security', migrations: keyringMigrations },
      ],
    });
  });
  beforeEach(async () => {
    serial += 1;
    module = `mod${serial}`;
    nodes = await Promise.all(createTestBuses(2).map(startNode));
  });
  afterAll(() => opened.close());

  it('answers the defaults before anything is stored', async () => {
    const { config, version, updatedAt } = await first().config.read(caller, module);
    expect(config).toEqual({
      active: true,
      port: 25,
      mail: { host: 'localhost', password: '', tags: ['a'] },
      providers: [],
      labels: {},
    });
    expect({ version, updatedAt }).toEqual({ version: 0, updatedAt: null });
  });

  it('merges one leaf, leaves all others, and has it applied on every node when it answers', async () => {
    const changed = await first().config.change(caller, module, { mail: { host: 'mail.example' } });
    expect(changed).toMatchObject({
      version: 1,
      warnings: [],
      applied: { replicas: 2, failed: [] },
      updatedBy: 'system:test',
    });
    for (const { handle } of nodes) {
      expect(handle.current().mail).toEqual({ host: 'mail.example', password: '', tags: ['a'] });
      expect(handle.version()).toBe(1);
    }
  });

  it('replaces lists, and takes null for "back to the default"', async () => {
    await first().config.change(caller, module, {
      port: 30,
      mail: { tags: ['x', 'y'], host: 'h' },
    });
    await first().config.change(caller, module, { port: null, mail: { tags: ['z'] } });
    expect(first().handle.current()).toMatchObject({ port: 25, mail: { host: 'h', tags: ['z'] } });
    await first().config.change(caller, module, { mail: null });
    expect(first().handle.current().mail).toEqual({ host: 'localhost', password: '', tags: ['a'] });
  });

  it('replaces the whole when asked', async () => {
    await first().config.change(caller, module, { port: 30, mail: { host: 'h' } });
    await first().config.change(caller, module, { port: 31 }, { replace: true });
    expect(first().handle.current()).toMatchObject({ port: 31, mail: { host: 'localhost' } });
  });

  it('refuses wrong types with all problems and their paths, and changes nothing', async () => {
    const failure = await failureOf(
      first().config.change(caller, module, { port: 'x', mail: { host: 5, tags: 'no' } }),
    );
    expect(failure.status).toBe(400);
    expect(failure.errors?.map(({ path }) => path).sort()).toEqual([
      'mail.host',
      'mail.tags',
      'port',
    ]);
    expect((await failureOf(first().config.change(caller, module, { port: 666 }))).errors).toEqual([
      { path: 'port', rule: 'reserved', message: 'is reserved' },
    ]);
    expect(
      (await failureOf(first().config.change(caller, module, { mail: 'all of it' }))).status,
    ).toBe(400);
    expect((await first().config.read(caller, module)).version).toBe(0);
  });

  it('leaves out unknown keys and lists them', async () => {
    const patch = JSON.parse(
      '{"port": 30, "colour": 1, "mail": {"shape": 2}, "__proto__": {"x": 1}, "providers": [{"name": "n", "key": "k", "size": 3}]}',
    );
    const changed = await first().config.change(caller, module, patch);
    expect([...changed.warnings].sort()).toEqual([
      '__proto__',
      'colour',
      'mail.shape',
      'providers.0.size',
    ]);
    expect(await stored()).not.toMatch(/colour|shape|size|__proto__/);
  });

  it('lets all of many concurrent changes of different leaves survive', async () => {
    await Promise.all([
      ...Array.from({ length: 20 }, (_, i) =>
        nodes[i % 2]!.config.change(caller, module, { labels: { [`key${i}`]: i } }),
      ),
      nodes[1]!.config.change(caller, module, { port: 99 }),
    ]);
    const { config, version } = await first().config.read(caller, module);
    expect(Object.keys(config.labels as object)).toHaveLength(20);
    expect(config.port).toBe(99);
    expect(version).toBe(21);
    for (const { handle } of nodes) expect(handle.version()).toBe(21);
  });

  it('answers 412 to a version that is not stored any more, for exactly all but one of those who saw it', async () => {
    await first().config.change(caller, module, { port: 30 });
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, (_, i) =>
        nodes[i % 2]!.config.change(caller, module, { port: 40 + i }, { expectedVersion: 1 }),
      ),
    );
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const result of results)
      if (result.status === 'rejected') expect(result.reason.status).toBe(412);
    expect(
      (await failureOf(first().config.change(caller, module, { port: 1 }, { expectedVersion: 0 })))
        .status,
    ).toBe(412);
  });

  it('keeps the old version where a listener throws, says so, and recovers with the next change', async () => {
    const seen: [number, number][] = [];
    const second = nodes[1]!;
    second.handle.onChange((next, previous) => void seen.push([next.port, previous.port]));
    const stop = second.handle.onChange(() => {
      throw new Error('not with me');
    });
    const changed = await first().config.change(caller, module, { port: 30 });
    expect(changed.applied).toEqual({ replicas: 1, failed: ['node-2'] });
    expect(first().handle.current().port).toBe(30);
    expect(second.handle.current().port).toBe(25);
    expect(seen).toEqual([
      [30, 25],
      [25, 30],
    ]);
    const check = second.health.checks().find(({ name }) => name === 'config.sync');
    expect(await check?.run(new AbortController().signal)).toEqual({
      status: 'warn',
      message: `an older configuration is in force: ${module}`,
    });
    stop();
    const next = await first().config.change(caller, module, { mail: { host: 'h' } });
    expect(next.applied).toEqual({ replicas: 2, failed: [] });
    expect(second.handle.current()).toMatchObject({ port: 30, mail: { host: 'h' } });
    expect(await check?.run(new AbortController().signal)).toEqual({ status: 'pass' });
  });

  it('counts this node as failed when it refuses its own change', async () => {
    first().handle.onChange(() => {
      throw new Error('not with me');
    });
    const changed = await first().config.change(caller, module, { port: 30 });
    expect(changed.applied).toEqual({ replicas: 1, failed: ['node-1'] });
    expect(changed.config.port).toBe(30);
    expect(first().handle.current().port).toBe(25);
  });

  it('takes in what it missed when its connection is back', async () => {
    const second = nodes[1]!;
    second.bus.disconnect();
    await first().config.change(caller, module, { port: 30 });
    expect(second.handle.current().port).toBe(25);
    const applied = new Promise<void>((resolve) => second.handle.onChange(() => resolve()));
    second.bus.reconnect();
    await applied;
    expect(second.handle.current().port).toBe(30);
  });

  it('keeps the last 20 versions and goes back to one of them', async () => {
    for (let port = 101; port <= 122; port += 1)
      await first().config.change(caller, module, { port, mail: { password: `secret-${port}` } });
    const versions = await first().config.history(caller, module);
    expect(versions.map(({ version }) => version)).toEqual(
      Array.from({ length: 20 }, (_, i) => 22 - i),
    );
    const back = await first().config.rollback(caller, module, 5);
    expect(back).toMatchObject({
      version: 23,
      config: { port: 105, mail: { password: '********' } },
    });
    expect(nodes[1]!.handle.current().mail.password).toBe('secret-105');
    expect((await failureOf(first().config.rollback(caller, module, 2))).status).toBe(404);
  });

  it('starts with defaults where a stored value is not valid any more', async () => {
    await opened.database.query({
      text: `insert into penstock.config (name, config, version, updated_by) values ('upgraded', '{"port": "old form", "mail": {"host": "kept"}}', 7, 'x')`,
    });
    const [bus] = createTestBuses(1);
    const secrets = await openSecretBox(opened.database, { masterKey: 'a key for tests' });
    const config = await createConfigService({
      database: opened.database,
      bus: bus!,
      secrets,
      log: silentLog,
      health: createHealth(),
    });
    const handle = await config.register<{ port: number; mail: { host: string } }>(
      'upgraded',
      definition,
    );
    expect(handle.current()).toMatchObject({ port: 25, mail: { host: 'kept' } });
    expect(handle.version()).toBe(7);
  });

  it('knows its modules, and answers 404 for others', async () => {
    expect(first().config.modules()).toEqual([module]);
    for (const name of ['nothing', '__proto__', 'constructor', '']) {
      expect((await failureOf(first().config.read(caller, name))).status).toBe(404);
      expect((await failureOf(first().config.change(caller, name, {}))).status).toBe(404);
    }
  });

  describe('secrets', () => {
    it('are encrypted at rest, masked in every answer, and in clear for the module', async () => {
      const changed = await first().config.change(caller, module, {
        mail: { password: 'hunter2-secret' },
        providers: [{ name: 'one', key: 'hunter3-secret' }],
      });
      expect(JSON.stringify(changed)).not.toMatch(/hunter/);
      expect(JSON.stringify(await first().config.read(caller, module))).not.toMatch(/hunter/);
      expect(changed.config).toMatchObject({
        mail: { password: '********' },
        providers: [{ name: 'one', key: '********' }],
      });
      expect(await stored()).not.toMatch(/hunter/);
      for (const { handle } of nodes) {
        expect(handle.current().mail.password).toBe('hunter2-secret');
        expect(handle.current().providers[0]?.key).toBe('hunter3-secret');
      }
      const revealed = await first().config.read(caller, module, { reveal: true });
      expect(revealed.config).toMatchObject({ mail: { password: 'hunter2-secret' } });
      expect(
        (await failureOf(first().config.read(plainAdmin, module, { reveal: true }))).status,
      ).toBe(403);
    });

    it('stay when the mask is written back, also inside lists and with replace', async () => {
      await first().config.change(caller, module, {
        mail: { password: 'hunter2' },
        providers: [{ name: 'one', key: 'hunter3' }],
      });
      const { config } = await first().config.read(caller, module);
      await first().config.change(caller, module, { ...config, port: 77 });
      await first().config.change(caller, module, config, { replace: true });
      expect(first().handle.current()).toMatchObject({
        mail: { password: 'hunter2' },
        providers: [{ key: 'hunter3' }],
      });
      await first().config.change(caller, module, { mail: { password: '****' } });
      expect(first().handle.current().mail.password).toBe('hunter2');
      await first().config.change(caller, module, { mail: { password: '***' } });
      expect(first().handle.current().mail.password).toBe('***');
      await first().config.change(caller, module, { mail: { password: '' } });
      expect((await first().config.read(caller, module)).config).toMatchObject({
        mail: { password: '' },
      });
    });

    it('appear in no error', async () => {
      const failure = await failureOf(
        first().config.change(caller, module, { port: 'x', mail: { password: 'hunter2' } }),
      );
      expect(JSON.stringify([failure.message, failure.errors, failure.detail])).not.toMatch(
        /hunter/,
      );
    });
  });

  it('lets only super admins change guarded keys, and everybody write them back unchanged', async () => {
    const failure = await failureOf(
      first().config.change(plainAdmin, module, { mail: { host: 'evil' } }),
    );
    expect(failure).toMatchObject({
      status: 403,
      message: `Only a super admin may change ${module}.mail.host`,
    });
    const { config } = await first().config.read(plainAdmin, module);
    await first().config.change(plainAdmin, module, { ...config, port: 78 });
    expect(first().handle.current()).toMatchObject({ port: 78, mail: { host: 'localhost' } });
  });

  it('is closed to everybody who is no operator', async () => {
    const user = {
      kind: 'user',
      userId: 'u',
      sessionId: 's',
      authenticatedAt: 0,
      complete: true,
      clientId: 'c',
    } as const;
    for (const other of [user, { kind: 'anonymous' } as const]) {
      expect((await failureOf(first().config.read(other, module))).status).toBe(403);
      expect((await failureOf(first().config.change(other, module, {}))).status).toBe(403);
      expect((await failureOf(first().config.history(other, module))).status).toBe(403);
      expect((await failureOf(first().config.rollback(other, module, 1))).status).toBe(403);
    }
  });

  it('freezes what modules read', () => {
    expect(() => Object.assign(first().handle.current().mail, { host: 'changed' })).toThrow();
  });
});
