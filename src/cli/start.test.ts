import { expect, it } from 'vitest';
import { bannerText, type StartedPlatform } from './start.ts';

const platform = {
  addresses: {
    client: 'http://127.0.0.1:3000',
    admin: 'http://127.0.0.1:3030',
    realtime: undefined,
    clientDocs: 'http://127.0.0.1:3000/reference',
    adminDocs: 'http://127.0.0.1:3030/reference',
  },
  dataDir: '/srv/data',
  database: {
    kind: 'embedded',
    version: '18.4',
    location: '/srv/data/postgres',
    connections: { total: 3, idle: 3, waiting: 0 },
  },
  environment: { env: 'development', because: undefined, host: '127.0.0.1' },
  firstStart: {},
} as unknown as StartedPlatform;

it('shows where everything is', () => {
  const text = bannerText(platform, 0.84, { isTerminal: true });
  for (const part of [
    'is ready (0.8 s)',
    'http://127.0.0.1:3000/reference',
    'http://127.0.0.1:3030',
    'Realtime        off',
    '/srv/data',
    '18.4',
  ]) {
    expect(text).toContain(part);
  }
  expect(text).not.toContain('first start');
});

it('says what was chosen where other machines can call, and how to choose otherwise', () => {
  const said = (environment: Partial<StartedPlatform['environment']>) =>
    /Environment +(.*)/.exec(
      bannerText({ ...platform, environment: { ...platform.environment, ...environment } }, 1, {
        isTerminal: false,
      }),
    )?.[1];
  expect(said({})).toBe('development');
  expect(said({ env: 'production' })).toBe('production');
  const open = { host: '0.0.0.0', because: 'HOST' } as const;
  expect(said({ ...open, env: 'production' })).toMatch(
    /^production, as HOST=0\.0\.0\.0.*NODE_ENV=development or core\.env/,
  );
  // Configured, or by NODE_ENV.
  expect(said({ ...open, env: 'development' })).toMatch(/^development, and HOST=0\.0\.0\.0/);
  expect(said({ ...open, env: 'production', because: 'NODE_ENV' })).toBe('production');
});

const firstStart = { masterKey: 'the-key', adminUsername: 'admin', adminPassword: 'the-password' };

it('names only the file where no person reads, as in the log of a container', () => {
  const text = bannerText({ ...platform, firstStart }, 1, { isTerminal: false });
  expect(text).toContain(
    'Made at the first start: master key and admin. Read /srv/data/secrets.json',
  );
  expect(text).not.toMatch(/the-key|the-password/);
});

it('shows the secrets of a first start and where they are kept', () => {
  const text = bannerText({ ...platform, firstStart }, 1, { isTerminal: true });
  expect(text).toContain('kept in /srv/data/secrets.json');
  expect(text).toMatch(/Master key {2}the-key\n {2}Admin {7}admin \/ the-password/);
});
