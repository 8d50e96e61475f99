import { expect, it } from 'vitest';
import { createTestDatabase } from '../../../test/support/database.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { StartError } from '../start-error.ts';
import { checkExternal, describeTarget, parseDatabaseUrl } from './open-database.ts';

const modes = { preparedStatements: true, pipelining: true };
const failure = (url: string): Promise<string> =>
  checkExternal(parseDatabaseUrl(url), modes).then(
    () => 'fine',
    (error: unknown) =>
      error instanceof StartError ? error.message : `not a StartError: ${error}`,
  );

it('reads a URL and describes it without credentials', () => {
  const target = parseDatabaseUrl('postgres://anna:s%40cret@db.example:6543/shop?sslmode=disable');
  expect(target).toMatchObject({
    host: 'db.example',
    port: 6543,
    user: 'anna',
    password: 's@cret',
    database: 'shop',
  });
  expect(describeTarget(target)).toBe('db.example:6543/shop');
});

it.each([
  'mysql://x/y',
  'postgres://',
  'postgres://user@host',
  'postgres://user:hunter2@host:5432/',
  'postgres://user:hunter2@[/db',
])('refuses %s without repeating it', (url) => {
  expect(() => parseDatabaseUrl(url)).toThrow(StartError);
  expect(() => parseDatabaseUrl(url)).toThrow(
    /^DATABASE_URL (?!.*hunter2).*write postgres:\/\/user:password@host:5432\/database$/,
  );
});

it('says in one line why a server cannot be used', async () => {
  const port = await freePort();
  expect(await failure(`postgres://user:hunter2@127.0.0.1:${port}/db`)).toBe(
    `Nothing answers at 127.0.0.1:${port}/db: start the PostgreSQL server, or correct DATABASE_URL`,
  );
  expect(await failure('postgres://user:hunter2@host.invalid/db')).toBe(
    'The host of the database, "host.invalid", is not known: check DATABASE_URL',
  );
  const database = await createTestDatabase({ server: 'external15' });
  const url = new URL(database.url);
  expect(await failure(url.href)).toBe('fine');
  url.pathname = '/missing';
  expect(await failure(url.href)).toMatch(
    /has no database "missing": create it, or correct DATABASE_URL$/,
  );
  url.pathname = `/${database.name}`;
  url.username = 'stranger';
  expect(await failure(url.href)).toMatch(
    /refused the user "stranger": check user and password in DATABASE_URL$/,
  );
  await database.drop();
});
