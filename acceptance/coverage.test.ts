import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { coveragePage } from './coverage-page.ts';
import { type PromisedRoute, projectRoot, readRoutes, routeKey } from './routes.ts';
import { switchOn } from './switched-on.ts';

const routes = readRoutes();
const nameOf = (route: PromisedRoute) => `${route.surface} ${route.route}`;
const served = (route: PromisedRoute) => route.state === 'works' || route.state === 'partly';

describe('the list of routes', () => {
  it('names each route once', () => {
    const keys = routes.map((route) => `${route.surface} ${routeKey(route.route)}`);
    expect(keys.filter((key, index) => keys.indexOf(key) !== index)).toEqual([]);
  });

  it('names a test that exists for each route that works', () => {
    expect(routes.filter((route) => served(route) && !route.tests).map(nameOf)).toEqual([]);
    const missing = routes
      .flatMap((route) => route.tests ?? [])
      .filter((path) => !existsSync(join(projectRoot, path)));
    expect(missing).toEqual([]);
  });

  it('says what is missing where a route works only partly', () => {
    expect(routes.filter((route) => route.state === 'partly' && !route.note).map(nameOf)).toEqual(
      [],
    );
  });

  it('is what COVERAGE.md shows (else: npm run coverage)', () => {
    expect(readFileSync(join(projectRoot, 'acceptance/COVERAGE.md'), 'utf8')).toBe(
      coveragePage(routes),
    );
  });
});

describe('a running platform', () => {
  let platform: TestPlatform;
  const registered = new Set<string>();

  beforeAll(async () => {
    platform = await createTestPlatform();
    await switchOn(platform.admin);
    await platform.createSchema({ name: 'Coverage', fields: { title: 'String' } });
    const endpoint = { name: 'coverage', operation: 0, selectedSchemaName: 'Coverage', query: {} };
    await platform.admin.post('/database/customEndpoints', endpoint);
    for (const [surface, api] of [
      ['client', platform.client],
      ['admin', platform.admin],
    ] as const) {
      const { paths } = (await api.get('/swagger.json')).body;
      for (const [path, methods] of Object.entries<object>(paths)) {
        for (const method of Object.keys(methods))
          registered.add(`${surface} ${routeKey(`${method.toUpperCase()} ${path}`)}`);
      }
    }
  });
  afterAll(() => platform.close());

  const isRegistered = (route: PromisedRoute): boolean => {
    const concrete = route.route
      .replace('{Schema}', 'Coverage')
      .replace('/function/:name', '/function/coverage');
    const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'];
    const spellings = concrete.startsWith('ANY ')
      ? methods.map((method) => concrete.replace('ANY', method))
      : [concrete];
    return spellings.some((spelling) => registered.has(`${route.surface} ${routeKey(spelling)}`));
  };
  /** Protocols of their own are not in OpenAPI; their tests stand for them. */
  const inDocument = (route: PromisedRoute) =>
    route.surface !== 'realtime' && !['mcp', 'graphql'].includes(route.module);

  it('has every route that is said to work', () => {
    expect(
      routes
        .filter((route) => inDocument(route) && served(route) && !isRegistered(route))
        .map(nameOf),
    ).toEqual([]);
  });

  it('has no route that is said to be missing: mark it as it is now', () => {
    expect(
      routes
        .filter((route) => inDocument(route) && !served(route) && isRegistered(route))
        .map(nameOf),
    ).toEqual([]);
  });
});
