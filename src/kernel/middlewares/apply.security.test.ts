/** What operators put before a route can only make it stricter (spec/router.md 5.2). CWE-284. */
import Type from 'typebox';
import { describe, expect, test } from 'vitest';
import {
  type Access,
  defineOperation,
  type Operation,
  type SurfaceName,
} from '../operations/operation.ts';
import {
  declaredMiddlewares,
  middlewareMeanings,
  middlewaresOf,
  routeKeyOf,
  withMiddlewares,
} from './middleware-lists.ts';

const operation = (
  surface: SurfaceName,
  access: Access,
  limit: Operation['limit'] = 'standard',
): Operation =>
  defineOperation({
    id: 'test.op',
    surface,
    method: 'GET',
    path: '/things/:id',
    aliases: [{ method: 'GET', path: '/old/:id' }],
    access,
    limit,
    input: { params: Type.Object({ id: Type.String() }) },
    output: Type.Object({}),
    summary: 'A test',
    handler: () => ({}),
  });

const noInput = { params: {}, query: {}, headers: {}, body: undefined };

const clientAccess: readonly Access[] = [
  'public',
  'optionalUser',
  'user',
  'partialUser',
  'refreshToken',
];
const adminAccess: readonly Access[] = [
  'admin',
  'superAdmin',
  'masterKey',
  'adminSecondFactor',
  'public',
];
const all = [
  ...clientAccess.map((access) => operation('client', access)),
  ...adminAccess.map((access) => operation('admin', access)),
  operation('client', 'public', { requests: 5, seconds: 900 }),
];
const names = [...middlewareMeanings.keys(), 'rateLimit:3/60', 'rateLimit:900/1', 'nonsense'];
const stricterThan: Partial<Record<Access, readonly Access[]>> = {
  public: ['user'],
  optionalUser: ['user'],
  admin: ['superAdmin'],
};

const under = (path: string, list: readonly string[], { surface }: Operation) =>
  new Map([[routeKeyOf(surface, 'GET', path), list]]);

describe('a stored list', () => {
  test.each(all)('never makes $surface $access $limit weaker, whatever it says', (given) => {
    for (const list of [[], ...names.map((name) => [name]), names]) {
      const effective = middlewaresOf(given, under('/things/:any', list, given));
      const made = withMiddlewares(given, effective);
      expect([given.access, ...(stricterThan[given.access] ?? [])]).toContain(made.access);
      expect(made.limit).toEqual(given.limit);
      expect(withMiddlewares(given, declaredMiddlewares(given))).toBe(given);
    }
  });

  test('holds under every spelling of the route', () => {
    const given = operation('client', 'public');
    for (const path of ['/things/:x', '/old/:y', '/old/:y/']) {
      const effective = middlewaresOf(given, under(path, ['authMiddleware'], given));
      expect(withMiddlewares(given, effective).access).toBe('user');
    }
  });

  test('that asks something of each request is not passed by listening', async () => {
    const live = () => Promise.reject(new Error('it was asked'));
    const given = { ...operation('client', 'optionalUser'), live };
    for (const name of ['rateLimit:3/60', 'function:judge'])
      await expect(
        withMiddlewares(given, ['authMiddleware?', name]).live?.({ kind: 'anonymous' }, noInput),
      ).rejects.toMatchObject({ status: 403, message: expect.stringContaining(name) });
    expect(withMiddlewares(given, ['authMiddleware']).live).toBe(live);
  });

  test('loses what no longer fits, and keeps what the module came to demand', () => {
    const given = operation('client', 'partialUser', { requests: 5, seconds: 900 });
    const list = ['authMiddleware', 'rateLimit:3/60', 'nonsense'];
    expect(middlewaresOf(given, under('/things/:id', list, given))).toEqual([
      'partialAuthMiddleware',
      'rateLimit:5/900',
      'rateLimit:3/60',
    ]);
  });
});
