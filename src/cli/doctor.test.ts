import { execFile } from 'node:child_process';
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { silentLog } from '../../test/support/log.ts';
import { startPretendPostgres } from '../../test/support/old-postgres.ts';
import {
  createTestPlatform,
  type TestPlatform,
  testEnvironment,
} from '../../test/support/platform.ts';
import { projectRoot } from '../../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { connectToSource } from '../backup/source.ts';
import type { Finding } from '../doctor/finding.ts';

interface Report {
  readonly code: number;
  readonly text: string;
  readonly findings: readonly Finding[];
}

/** Runs the command as a user does. */
const doctor = (
  env: Readonly<Record<string, string>>,
  args: readonly string[] = ['--json'],
): Promise<Report> =>
  new Promise((resolve) => {
    const program = [join(projectRoot, 'bin/penstock.mjs'), 'doctor', ...args];
    execFile('node', program, { env: { PATH: process.env.PATH, ...env } }, (error, stdout) => {
      const findings =
        args.includes('--json') && stdout.startsWith('{')
          ? (JSON.parse(stdout) as { findings: Finding[] }).findings
          : [];
      resolve({ code: error ? Number(error.code) : 0, text: stdout, findings });
    });
  });

const about = ({ findings }: Report, subject: string): Finding | undefined =>
  findings.find((finding) => finding.subject === subject);

describe('penstock doctor', () => {
  let platform: TestPlatform;
  let folder: string;
  let busy: Server;

  beforeAll(async () => {
    folder = await temporaryFolder('doctor');
    platform = await createTestPlatform({ server: 'own' });
    busy = createServer().listen(0, '127.0.0.1');
  }, 60_000);
  afterAll(async () => {
    busy.close();
    await platform.close();
    await removeFolder(folder);
  });

  test('finds a running platform well, and sees that it runs', async () => {
    const port = new URL(platform.addresses.client).port;
    const report = await doctor({
      ...testEnvironment(platform.dataDir, undefined),
      CLIENT_HTTP_PORT: port,
    });
    expect(about(report, `Port ${port}`)).toMatchObject({
      severity: 'ok',
      message: expect.stringContaining('running Penstock'),
    });
    expect(about(report, 'Structure')).toMatchObject({ severity: 'ok' });
    expect(about(report, 'Clock')).toMatchObject({ severity: 'ok' });
    expect(report.findings.filter(({ severity }) => severity === 'problem')).toEqual([]);
    expect(report.code).toBe(0);
  });

  test('says who has a port, and what to do', async () => {
    const address = busy.address();
    const port = typeof address === 'object' && address ? String(address.port) : '';
    const report = await doctor({
      ...testEnvironment(join(folder, 'none'), undefined),
      ADMIN_HTTP_PORT: port,
    });
    expect(about(report, `Port ${port}`)).toMatchObject({
      severity: 'problem',
      advice: expect.stringContaining('ADMIN_HTTP_PORT'),
    });
    expect(report.code).toBe(1);
  });

  test('names a weak master key, keys that others can read, and a database that is not there', async () => {
    await writeFile(join(folder, 'secrets.json'), '{}');
    await chmod(join(folder, 'secrets.json'), 0o644);
    const report = await doctor({
      ...testEnvironment(folder, 'postgres://nobody:hidden-word@127.0.0.1:1/none'),
      MASTER_KEY: 'short',
      REDIS_URL: 'redis://:hidden-word@127.0.0.1:1',
    });
    for (const subject of ['Master key', 'Keys', 'Database', 'Redis'])
      expect(about(report, subject)).toMatchObject({ severity: 'problem' });
    expect(report.text).not.toContain('hidden-word');
  });

  test('says that the keys are damaged or gone, and what the database is like all the same', async () => {
    const { MASTER_KEY: _, ...env } = testEnvironment(platform.dataDir, undefined);
    const gone = await doctor(env);
    expect(about(gone, 'Sealed secrets')).toMatchObject({
      severity: 'problem',
      message: expect.stringContaining('is missing'),
    });
    const file = join(platform.dataDir, 'secrets.json');
    await writeFile(file, '{broken', { mode: 0o600 });
    const damaged = await doctor(env);
    await rm(file);
    expect(about(damaged, 'Keys')).toMatchObject({
      severity: 'problem',
      message: expect.stringContaining('secrets.json is damaged'),
    });
    for (const report of [gone, damaged])
      expect(about(report, 'Structure')).toMatchObject({ severity: 'ok' });
  });

  test('finds a key that does not open the secrets, and a database that a newer version has changed', async () => {
    const fine = await doctor(testEnvironment(platform.dataDir, undefined));
    expect(about(fine, 'Sealed secrets')).toMatchObject({ severity: 'ok' });
    const { client, close } = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    await client.query(
      `insert into penstock.migrations (owner, id) values ('kernel/config', '9999-of-the-future')`,
    );
    const report = await doctor({
      ...testEnvironment(platform.dataDir, undefined),
      MASTER_KEY: 'another-key-0123456789',
    });
    await client
      .query(`delete from penstock.migrations where id = '9999-of-the-future'`)
      .finally(close);
    expect(about(report, 'Sealed secrets')).toMatchObject({
      severity: 'problem',
      advice: expect.stringContaining('MASTER_KEY'),
    });
    expect(about(report, 'Structure')).toMatchObject({
      severity: 'problem',
      message: expect.stringContaining('9999-of-the-future'),
    });
    expect(report.code).toBe(1);
  });

  test('warns of passkeys that would belong to an IP address', async () => {
    const passkeys = (config: object) =>
      platform.admin.patch('/config/authentication', { config: { passkeys: config } });
    const host = (hostUrl: string) =>
      platform.admin.patch('/config/router', { config: { hostUrl } });
    const found = async () =>
      about(await doctor(testEnvironment(platform.dataDir, undefined)), 'Passkeys');
    await passkeys({ enabled: true });
    expect(await found()).toBeUndefined();
    for (const hostUrl of ['https://192.0.2.7:3000', 'https://[2001:db8::7]']) {
      await host(hostUrl);
      expect(await found()).toMatchObject({
        severity: 'warning',
        advice: expect.stringContaining('passkeys.rpId'),
      });
    }
    await passkeys({ rpId: 'example.com', origins: ['https://app.example.com'] });
    expect(await found()).toBeUndefined();
    await passkeys({ enabled: false, rpId: null, origins: null });
    await host('');
  });

  test('warns of what other machines could read', async () => {
    const asked = (env: Record<string, string>) =>
      doctor({ ...testEnvironment(platform.dataDir, undefined), HOST: '0.0.0.0', ...env });
    const [production, development] = [await asked({}), await asked({ NODE_ENV: 'development' })];
    expect(about(production, 'Environment')).toBeUndefined();
    expect(about(production, 'API documents')).toMatchObject({ severity: 'note' });
    expect(about(development, 'Environment')).toMatchObject({
      severity: 'warning',
      advice: expect.stringContaining('NODE_ENV'),
    });
    for (const report of [production, development])
      expect(about(report, 'Admin surface')).toMatchObject({
        severity: 'warning',
        message: expect.stringContaining('plain HTTP on 0.0.0.0'),
        advice: expect.stringContaining('admin.hostUrl'),
      });
    const configure = (module: string, config: object) =>
      platform.admin.patch(`/config/${module}`, { config });
    await configure('admin', { hostUrl: 'https://admin.example.com', docs: { public: true } });
    await configure('router', { graphql: { introspection: true }, docs: { public: false } });
    const opened = await asked({});
    expect(about(opened, 'Admin surface')).toBeUndefined();
    expect(opened.findings.filter(({ subject }) => subject === 'API documents')).toMatchObject([
      {
        severity: 'warning',
        message: expect.stringMatching(/: admin\.docs\.public, router\.graphql\.introspection$/),
      },
    ]);
    await configure('authentication', { phoneAuthentication: { enabled: true } });
    expect(about(await asked({}), 'Text messages')).toMatchObject({
      severity: 'warning',
      advice: expect.stringContaining('sms.providerName'),
    });
    await configure('communications', { sms: { active: false } });
    expect(about(await asked({}), 'Text messages')).toBeUndefined();
    const metrics = { METRICS_PORT: '1', METRICS_HOST: '0.0.0.0' };
    expect(about(await asked(metrics), 'Metrics')).toMatchObject({
      severity: 'warning',
      advice: expect.stringContaining('METRICS_TOKEN'),
    });
    expect(about(await asked({ ...metrics, METRICS_TOKEN: 'x' }), 'Metrics')).toBeUndefined();
    await configure('communications', { sms: { active: null } });
    await configure('authentication', { phoneAuthentication: { enabled: null } });
    await configure('admin', { hostUrl: null, docs: { public: null } });
    await configure('router', { graphql: { introspection: null }, docs: { public: null } });
  });

  test('asks whether the mail server answers', async () => {
    const mail = (port: number) =>
      platform.admin.patch('/config/communications', {
        email: {
          sendingDomain: 'example.com',
          transportSettings: { smtp: { host: '127.0.0.1', port } },
        },
      });
    const address = busy.address();
    await mail(typeof address === 'object' && address ? address.port : 0);
    expect(about(await doctor(testEnvironment(platform.dataDir, undefined)), 'Mail')).toMatchObject(
      { severity: 'ok' },
    );
    await mail(1);
    expect(about(await doctor(testEnvironment(platform.dataDir, undefined)), 'Mail')).toMatchObject(
      {
        severity: 'problem',
        message: expect.stringContaining('127.0.0.1:1'),
      },
    );
    await platform.admin.patch('/config/communications', {
      email: {
        transport: 'sendgrid',
        transportSettings: {
          sendgrid: { apiKey: 'of-the-provider' },
          smtp: { host: null, port: null },
        },
      },
    });
    const provided = await doctor(testEnvironment(platform.dataDir, undefined));
    expect(about(provided, 'Mail')).toEqual({
      severity: 'ok',
      subject: 'Mail',
      message: 'Mails go out by sendgrid',
    });
    await platform.admin.patch('/config/communications', {
      email: { transport: null, transportSettings: null, sendingDomain: null },
    });
  });

  test('asks whether the store of files answers', async () => {
    const { client, close } = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    // The platform takes no store that does not answer: this one has gone away since.
    const asked = async (change: object) => {
      await client.query(
        `insert into penstock.config (name, config, version, updated_by) values ('storage', $1, 1, 'test')
         on conflict (name) do update set config = config.config || $1`,
        [JSON.stringify(change)],
      );
      return about(await doctor(testEnvironment(platform.dataDir, undefined)), 'Files');
    };
    const address = busy.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const at = (store: number) => ({
      provider: 'aws',
      aws: { endpoint: `http://127.0.0.1:${store}` },
    });
    expect(await asked(at(port))).toMatchObject({ severity: 'ok' });
    expect(await asked(at(1))).toMatchObject({
      severity: 'problem',
      message: 'The store of files 127.0.0.1:1 (aws) does not answer (ECONNREFUSED)',
    });
    expect(await asked({ provider: 'local' })).toBeUndefined();
    await close();
  });

  test('warns of a provider of messages that took none of the last ones', async () => {
    const { client, close } = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    let seconds = 0;
    const note = (kind: string, count: number) => {
      seconds += 1;
      return client.query(
        `with message as (
           insert into penstock.messages (id, channel, recipient, status)
           select gen_random_uuid(), 'sms', '+3069', 'failed' from generate_series(1, $2::integer) returning id)
         insert into penstock.message_events (message_id, kind, provider, at) select id, $1, 'twilio', now() + $3::integer * interval '1 second' from message`,
        [kind, count, seconds],
      );
    };
    const found = async () =>
      about(await doctor(testEnvironment(platform.dataDir, undefined)), 'Messages');
    try {
      await note('tried', 5);
      await note('accepted', 1);
      await note('failed', 2);
      expect(await found()).toBeUndefined();
      await note('tried', 1);
      expect(await found()).toMatchObject({
        severity: 'warning',
        message: expect.stringContaining('The last 3 attempts to send by twilio (sms)'),
      });
      await note('accepted', 1);
      expect(await found()).toBeUndefined();
    } finally {
      await client.query(`delete from penstock.messages where recipient = '+3069'`).finally(close);
    }
  });

  test('refuses a server that is too old, and sees a folder that others may write into', async () => {
    const old = await startPretendPostgres({ number: 130_012, name: '13.12' });
    const shared = join(folder, 'shared');
    await mkdir(shared);
    await chmod(shared, 0o777);
    const report = await doctor(testEnvironment(shared, old.url));
    old.close();
    expect(about(report, 'Database')).toMatchObject({
      severity: 'problem',
      message: expect.stringMatching(/13\.12.*15 or newer/),
    });
    expect(about(report, 'Data folder')).toMatchObject({
      severity: 'problem',
      advice: expect.stringContaining('chmod 700'),
    });
  });

  test('tells people in words, and refuses what it does not know', async () => {
    const { text } = await doctor(testEnvironment(join(folder, 'none'), undefined), []);
    expect(text).toMatch(/note {5}Database: There is none yet/);
    expect((await doctor({}, ['--fix'])).code).toBe(1);
  });
});
