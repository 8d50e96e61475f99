import { describe, expect, it } from 'vitest';
import type { ModuleState } from '../../host/kernel.ts';
import { createHealth, type HealthResult } from '../../kernel/health.ts';
import type { ReadySettings } from '../../kernel/settings/settings.ts';
import { createReadiness } from './services/readiness.ts';

const defaults: ReadySettings = {
  requiredModules: [],
  checkRedis: true,
  strict: false,
  probeModulesActive: false,
  publicDetails: true,
  totalTimeoutMs: 200,
  redisTimeoutMs: 50,
  moduleTimeoutMs: 50,
};

interface Scene {
  readonly checks?: Readonly<Record<string, () => HealthResult | Promise<HealthResult>>>;
  readonly modules?: readonly ModuleState[];
  readonly settings?: Partial<ReadySettings>;
}

function readinessOf({ checks = {}, modules = [], settings = {} }: Scene) {
  const health = createHealth();
  for (const [name, run] of Object.entries(checks))
    health.register({ name, run: async () => run() });
  return createReadiness({
    health,
    modules: { list: () => modules },
    settings: { ...defaults, ...settings },
  });
}

const statusesOf = async (scene: Scene) => {
  const report = await readinessOf(scene).full();
  return {
    status: report.status,
    ...Object.fromEntries(report.checks.map(({ name, status }) => [name, status])),
  };
};
const pass = (): HealthResult => ({ status: 'pass' });
const never = (): Promise<HealthResult> => new Promise(() => undefined);

describe('the readiness report', () => {
  it('is ready while nothing fails, warnings or not', async () => {
    expect(
      await statusesOf({
        checks: { database: pass, 'config.sync': () => ({ status: 'warn' }) },
        modules: [{ name: 'chat', serving: true }],
      }),
    ).toEqual({
      status: 'ready',
      'core.initialized': 'pass',
      database: 'pass',
      'config.sync': 'warn',
      'modules.chat': 'pass',
    });
  });

  it('fails with a check that fails, throws or does not answer, within the time', async () => {
    const scene = {
      checks: {
        database: () => {
          throw new Error('password=secret');
        },
        redis: never,
        other: never,
      },
    };
    const report = await readinessOf(scene).full();
    expect(report).toMatchObject({
      status: 'not_ready',
      message: 'Penstock is not ready: database, redis, other',
    });
    expect(JSON.stringify(report)).not.toContain('secret');
  });

  it('asks for modules as the settings say', async () => {
    const modules = [{ name: 'chat', serving: false, note: 'switched off' }];
    expect(await statusesOf({ modules })).toMatchObject({
      status: 'ready',
      'modules.chat': 'warn',
    });
    expect(await statusesOf({ modules, settings: { strict: true } })).toMatchObject({
      status: 'not_ready',
      'modules.chat': 'fail',
    });
    expect(await statusesOf({ modules, settings: { requiredModules: ['chat'] } })).toMatchObject({
      status: 'not_ready',
      'modules.chat': 'fail',
    });
    expect(await statusesOf({ modules, settings: { requiredModules: ['absent'] } })).toMatchObject({
      status: 'not_ready',
      'modules.absent': 'fail',
    });
    const degraded = [{ name: 'chat', serving: true, note: 'an older configuration' }];
    expect(await statusesOf({ modules: degraded })).toMatchObject({
      status: 'ready',
      'modules.chat': 'warn',
    });
  });

  it('leaves out Redis and probes of modules unless they are requested', async () => {
    const checks = { redis: never, 'modules.chat': () => ({ status: 'fail' }) as const };
    const modules = [{ name: 'chat', serving: true }];
    expect(await statusesOf({ checks, modules, settings: { checkRedis: false } })).toEqual({
      status: 'ready',
      'core.initialized': 'pass',
      'modules.chat': 'pass',
    });
    expect(
      await statusesOf({
        checks,
        modules,
        settings: { checkRedis: false, probeModulesActive: true },
      }),
    ).toMatchObject({
      'modules.chat': 'fail',
    });
  });

  it('asks once for all who ask within a second', async () => {
    let asked = 0;
    const readiness = readinessOf({
      checks: {
        database: () => {
          asked += 1;
          return { status: 'pass' };
        },
      },
    });
    await Promise.all(Array.from({ length: 50 }, () => readiness.full()));
    expect(asked).toBe(1);
  });

  it('fails as soon as the platform is about to stop, whatever it said a moment ago', async () => {
    const health = createHealth();
    const readiness = createReadiness({
      ...{ health, settings: defaults },
      modules: { list: () => [{ name: 'chat', serving: true }] },
    });
    expect([(await readiness.full()).status, readiness.shallow().status]).toEqual([
      ...['ready', 'ready'],
    ]);
    health.beginStop();
    for (const report of [await readiness.full(), readiness.shallow()])
      expect(report).toMatchObject({ status: 'not_ready', checks: [{ name: 'core.stopping' }] });
  });

  it('is shallow on the client surface: only what is required and missing counts', async () => {
    const modules = [
      { name: 'chat', serving: false },
      { name: 'storage', serving: false },
    ];
    expect(readinessOf({ checks: { database: never }, modules }).shallow()).toMatchObject({
      status: 'ready',
      checks: [{ name: 'core.initialized' }],
    });
    expect(
      readinessOf({ modules, settings: { requiredModules: ['storage'] } }).shallow(),
    ).toMatchObject({ status: 'not_ready' });
  });
});
