import { describe, expect, test } from 'vitest';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { errors, PenstockError } from '../../../../kernel/errors.ts';
import { userSchema } from '../../schemas.ts';
import { allowedUserData, userView, writableFields, writingUser } from './user-data.ts';

const compiledFields = { ...userSchema.fields, nickname: 'String', address: { city: 'String' } };
const schemas = {
  get: () => ({ compiledFields }) as unknown as CompiledSchema,
} as unknown as SchemaRegistry;

test('fields that extend the user pass unchanged', () => {
  const data = { nickname: 'Ada', address: { city: 'London' } };
  expect(allowedUserData(schemas, data)).toEqual(data);
  expect(allowedUserData(schemas, {})).toEqual({});
});

test('every other name is reported, all at once', () => {
  expect(() =>
    allowedUserData(schemas, { nickname: 'Ada', isVerified: true, 'address.city': 'x' }),
  ).toThrowError(
    expect.objectContaining({
      code: 'USER_DATA_UNKNOWN',
      errors: [
        expect.objectContaining({ path: 'userData.isVerified' }),
        expect.objectContaining({ path: 'userData.address.city' }),
      ],
    }),
  );
});

const failing = (error: Error) => writingUser(() => Promise.reject(error));

test('a problem of an extension field gets its place in the request', async () => {
  const problem = { path: 'nickname', rule: 'type', message: 'must be a string' };
  await expect(failing(errors.INVALID_ARGUMENTS({ errors: [problem] }))).rejects.toMatchObject({
    status: 400,
    errors: [{ ...problem, path: 'userData.nickname' }],
  });
});

test.each([
  ['email', 'USER_EXISTS'],
  ['username', 'USERNAME_EXISTS'],
  ['phoneNumber', 'PHONE_NUMBER_EXISTS'],
  ['nickname', 'CONFLICT'],
])('a taken %s is %s', async (path, code) => {
  const clash = errors.CONFLICT({ errors: [{ path, rule: 'unique', message: 'taken' }] });
  await expect(failing(clash)).rejects.toMatchObject({ status: 409, code });
});

test('other failures stay what they are', async () => {
  const broken = new Error('broken');
  await expect(failing(broken)).rejects.toBe(broken);
  const absent = new PenstockError('NOT_FOUND', 404, 'There is nothing here');
  await expect(failing(absent)).rejects.toBe(absent);
});

describe('what users write about themselves', () => {
  const fields = {
    ...userSchema.fields,
    plain: 'String',
    open: { type: 'String', access: { write: 'user' } },
    everybody: { type: 'String', access: { write: 'public' } },
    judged: { type: 'String', access: { read: 'admin', write: 'role:judge' } },
    half: { type: 'String', access: { read: 'public' } },
  };
  const extended = {
    get: () => ({ compiledFields: fields }) as unknown as CompiledSchema,
  } as unknown as SchemaRegistry;
  const closed = { openByDefault: false, openFields: [] };

  test.each([
    [{ config: closed }, ['everybody', 'open']],
    [{ config: closed, roles: new Set(['judge']) }, ['everybody', 'judged', 'open']],
    [{ config: { ...closed, openFields: ['plain', 'email'] } }, ['everybody', 'open', 'plain']],
    [{ config: { ...closed, openByDefault: true } }, ['everybody', 'half', 'open', 'plain']],
  ])('is what %j opens', (writer, names) => {
    expect([...writableFields(extended, writer)].sort()).toEqual(names);
  });

  test('is told apart from what there is not', () => {
    expect(() =>
      allowedUserData(extended, { plain: 'x', nothing: 'x' }, { config: closed }),
    ).toThrowError(
      expect.objectContaining({
        errors: [
          expect.objectContaining({ path: 'userData.plain', rule: 'access' }),
          expect.objectContaining({ rule: 'unknown' }),
        ],
      }),
    );
  });

  test('is shown without what they may not see', () => {
    const json = JSON.stringify({ _id: '1', plain: 'a', judged: 'b' });
    expect(JSON.parse(userView(extended, json))).toEqual({ _id: '1', plain: 'a' });
  });
});
