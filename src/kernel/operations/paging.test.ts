import Type from 'typebox';
import { Check, Default } from 'typebox/value';
import { describe, expect, it } from 'vitest';
import { optionalPagingQuery, pagingQuery } from './paging.ts';

const query = Type.Object(pagingQuery({ maxSkip: 100, maxLimit: 50, defaultLimit: 10 }));

describe('paging', () => {
  it('fills in the first page where a call names none', () => {
    expect(Default(query, {})).toEqual({ skip: 0, limit: 10 });
    expect(Default(Type.Object(pagingQuery()), {})).toEqual({ skip: 0, limit: 25 });
  });

  it.each([
    [{ skip: 100, limit: 50 }, true],
    [{ skip: 101, limit: 50 }, false],
    [{ skip: -1, limit: 50 }, false],
    [{ skip: 0, limit: 51 }, false],
    [{ skip: 0, limit: 0 }, false],
    [{ skip: 0.5, limit: 1 }, false],
  ])('holds %o against its bounds', (value, isValid) => {
    expect(Check(query, value)).toBe(isValid);
  });

  it('may be left out where it is optional', () => {
    expect(Check(Type.Object(optionalPagingQuery()), {})).toBe(true);
    expect(Check(Type.Object(pagingQuery()), {})).toBe(false);
  });
});
