import { describe, expect, it } from 'vitest';
import { StartError } from '../start-error.ts';
import { masterKeyWeakness, refuseWeakMasterKey } from './default-environment.ts';
import { readSettings, settingsHelp } from './settings.ts';

describe('readSettings', () => {
  it('has a default for everything', () => {
    const settings = readSettings({});
    expect(settings).toMatchObject({
      clientHttpPort: 3000,
      clientSocketPort: 3001,
      adminHttpPort: 3030,
      host: '127.0.0.1',
      logLevel: 'info',
    });
    expect(settings.masterKey).toBeUndefined();
    expect(settings.dataDir).toMatch(/^\/.*\/\.penstock$/);
    expect(settings.ready).toMatchObject({
      checkRedis: true,
      strict: false,
      totalTimeoutMs: 3000,
      redisTimeoutMs: 500,
      moduleTimeoutMs: 1000,
    });
  });

  it('takes an empty variable for an unset one', () => {
    expect(readSettings({ MASTER_KEY: '', HOST: ' ', CLIENT_HTTP_PORT: '' })).toMatchObject({
      masterKey: undefined,
      host: '127.0.0.1',
      clientHttpPort: 3000,
    });
  });

  it('reads every kind of value', () => {
    const settings = readSettings({
      CLIENT_SOCKET_PORT: '-1',
      ADMIN_HTTP_PORT: '0',
      TRUSTED_PROXIES: '10.0.0.0/8, ::1',
      READY_REQUIRED_MODULES: 'chat, storage',
      READY_STRICT: '1',
      LOG_LEVEL: 'WARN',
      DATABASE_PIPELINING: 'false',
    });
    expect(settings).toMatchObject({
      clientSocketPort: -1,
      adminHttpPort: 0,
      logLevel: 'warn',
      databasePipelining: false,
    });
    expect(settings.trustedProxies).toEqual(['10.0.0.0/8', '::1']);
    expect(settings.ready).toMatchObject({ requiredModules: ['chat', 'storage'], strict: true });
  });

  it.each([
    [{ CLIENT_HTTP_PORT: 'abc' }, 'CLIENT_HTTP_PORT must be a port number, got "abc"'],
    [{ ADMIN_HTTP_PORT: '70000' }, 'ADMIN_HTTP_PORT must be a port number, got "70000"'],
    [{ METRICS_PORT: '-1' }, 'METRICS_PORT must be a port number, got "-1"'],
    [{ WATCHDOG_MS: '1500' }, 'WATCHDOG_MS must be 0 or at least 2000 milliseconds, got "1500"'],
    [{ READY_STRICT: 'yes' }, 'READY_STRICT must be true or false, got "yes"'],
    [
      { LOG_LEVEL: 'loud' },
      'LOG_LEVEL must be one of debug, info, warn, error, silent, got "loud"',
    ],
    [
      { READY_TOTAL_TIMEOUT_MS: '0' },
      'READY_TOTAL_TIMEOUT_MS must be a positive number of milliseconds, got "0"',
    ],
    [
      { TRUSTED_PROXIES: '10.0.0.0/33' },
      'TRUSTED_PROXIES must be a comma list of addresses and CIDR ranges, or a number of hops, got "10.0.0.0/33"',
    ],
    [
      { METRICS_PREFIX: 'a-b' },
      'METRICS_PREFIX must be letters, digits and underscores, got "a-b"',
    ],
  ])('refuses %o with one clear line', (environment, message) => {
    expect(() => readSettings(environment)).toThrow(new StartError(message));
  });

  it('does not repeat what may hold a password', () => {
    expect(() => readSettings({ DATABASE_URL: 'mysql://root:hunter2@host/db' })).toThrow(
      /^DATABASE_URL must be an address that starts with postgres:/,
    );
    expect(() => readSettings({ REDIS_URL: 'hunter2' })).toThrow(/^(?!.*hunter2)/);
    const half = 'redis://:hunter2%zz@host:6379';
    expect(() => readSettings({ REDIS_URL: half })).toThrow(
      /^(?!.*hunter2)REDIS_URL must be a valid address, such as redis:.*write % as %25/,
    );
    expect(() => readSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a b' })).toThrow(
      'OTEL_EXPORTER_OTLP_ENDPOINT must be a valid address',
    );
  });

  it('refuses one port for two surfaces, and lets the system choose for both', () => {
    expect(() => readSettings({ CLIENT_HTTP_PORT: '4000', ADMIN_HTTP_PORT: '4000' })).toThrow(
      'CLIENT_HTTP_PORT and ADMIN_HTTP_PORT are both 4000: give each a port of its own',
    );
    expect(() => readSettings({ METRICS_PORT: '3030' })).toThrow(
      /ADMIN_HTTP_PORT and METRICS_PORT/,
    );
    expect(readSettings({ METRICS_PORT: '3030', METRICS_HOST: '10.0.0.5' }).metricsPort).toBe(3030);
    expect(
      readSettings({ CLIENT_HTTP_PORT: '0', ADMIN_HTTP_PORT: '0', CLIENT_SOCKET_PORT: '-1' })
        .adminHttpPort,
    ).toBe(0);
  });

  it.each([
    [{}, 'development', undefined],
    [{ HOST: 'localhost' }, 'development', undefined],
    [{ HOST: '127.0.0.53' }, 'development', undefined],
    [{ HOST: '::1' }, 'development', undefined],
    [{ HOST: '::ffff:127.0.0.1' }, 'development', undefined],
    [{ NODE_ENV: 'test' }, 'development', undefined],
    [{ NODE_ENV: 'production' }, 'production', 'NODE_ENV'],
    [{ HOST: '0.0.0.0' }, 'production', 'HOST'],
    [{ HOST: '::' }, 'production', 'HOST'],
    [{ HOST: '192.0.2.7', NODE_ENV: 'test' }, 'production', 'HOST'],
    [{ HOST: 'fe80::1%eth0' }, 'production', 'HOST'],
    [{ HOST: '127.example.com' }, 'production', 'HOST'],
    [{ HOST: '0.0.0.0', NODE_ENV: 'development' }, 'development', 'NODE_ENV'],
  ])('takes %o for an installation of %s', (environment, env, because) => {
    expect(readSettings(environment).defaultEnvironment).toEqual({ env, because });
  });

  it('refuses a weak master key in production only, where a start is meant', () => {
    for (const key of ['M4ST3RK3Y', 'short']) {
      const start = (environment: Record<string, string>) =>
        refuseWeakMasterKey(readSettings({ MASTER_KEY: key, ...environment }));
      expect(() => start({ NODE_ENV: 'production' })).toThrow(StartError);
      expect(() => start({ HOST: '0.0.0.0' })).toThrow(
        /^MASTER_KEY is .*HOST=0\.0\.0\.0.*NODE_ENV=development.*MASTER_KEY_PREVIOUS$/,
      );
      start({});
      start({ HOST: '0.0.0.0', NODE_ENV: 'development' });
      expect(masterKeyWeakness(key)).toBeDefined();
    }
    refuseWeakMasterKey(readSettings({ HOST: '0.0.0.0' }));
    expect(masterKeyWeakness('0123456789abcdef')).toBeUndefined();
    expect(masterKeyWeakness(undefined)).toBeUndefined();
  });
});

it('explains every variable once', () => {
  const names = settingsHelp()
    .split('\n')
    .map((line) => line.trim().split(' ', 1)[0]);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toEqual(
    expect.arrayContaining([
      'CLIENT_HTTP_PORT',
      'DATABASE_URL',
      'READY_STRICT',
      'MASTER_KEY_PREVIOUS',
    ]),
  );
});
