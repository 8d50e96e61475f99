import Type from 'typebox';
import { describe, expect, it } from 'vitest';
import type { Problem } from '../errors.ts';
import { decodeQuery, decodeTexts, textFields } from './decode.ts';

const fields = textFields(
  Type.Object({
    limit: Type.Optional(Type.Integer({ default: 25 })),
    price: Type.Optional(Type.Number()),
    flag: Type.Optional(Type.Boolean()),
    text: Type.Optional(Type.String()),
    sort: Type.Optional(Type.Array(Type.String())),
    sizes: Type.Optional(Type.Array(Type.Number())),
    filter: Type.Optional(Type.Object({ a: Type.Optional(Type.Number()) })),
    kind: Type.Optional(Type.Union([Type.Literal('a'), Type.Literal('b')])),
  }),
);

const decode = (
  query: string,
  strict = false,
): { values: Record<string, unknown>; problems: Problem[] } => {
  const problems: Problem[] = [];
  const values = decodeQuery(fields, query, problems, (path) => {
    if (strict) problems.push({ path, rule: 'unknown', message: 'is not known here' });
  });
  return { values: { ...values }, problems };
};

describe('query values', () => {
  it('takes canonical numbers only', () => {
    expect(decode('price=-1.50').values.price).toBe(-1.5);
    expect(Object.is(decode('price=-0').values.price, 0)).toBe(true);
    for (const bad of [
      'abc',
      '',
      '1e3',
      '0x10',
      '007',
      '1.',
      '.5',
      ' 1',
      'NaN',
      'Infinity',
      '1,2',
      '٣',
    ]) {
      expect(decode(`price=${encodeURIComponent(bad)}`).problems, bad).toEqual([
        { path: 'price', rule: 'type', message: 'must be a number' },
      ]);
    }
  });

  it('refuses whole numbers that a double cannot hold', () => {
    expect(decode('limit=9007199254740993').problems).toEqual([
      { path: 'limit', rule: 'type', message: 'must be a whole number' },
    ]);
    expect(decode('limit=1.5').problems[0]?.message).toBe('must be a whole number');
  });

  it('takes true, false, 1 and 0 for booleans, and nothing else', () => {
    expect(['true', 'false', '1', '0'].map((text) => decode(`flag=${text}`).values.flag)).toEqual([
      true,
      false,
      true,
      false,
    ]);
    for (const bad of ['TRUE', 'yes', '', '2', 'null'])
      expect(decode(`flag=${bad}`).problems).toHaveLength(1);
  });

  it('splits commas only for arrays', () => {
    expect(decode('text=a,b').values.text).toBe('a,b');
    expect(decode('sort=a,-b').values.sort).toEqual(['a', '-b']);
  });

  it('takes repeated and bracketed arrays', () => {
    expect(decode('sort=a&sort=b').values.sort).toEqual(['a', 'b']);
    expect(decode('sort[]=a&sort%5B%5D=b').values.sort).toEqual(['a', 'b']);
    expect(decode('sizes[0]=1&sizes[1]=2').values.sizes).toEqual([1, 2]);
    expect(decode('sort=').values.sort).toEqual([]);
  });

  it('refuses repeated scalars and nested keys', () => {
    expect(decode('text=a&text=b').problems).toEqual([
      { path: 'text', rule: 'single', message: 'must be given once' },
    ]);
    expect(decode('text[b]=1').problems[0]).toMatchObject({ path: 'text', rule: 'nested' });
    expect(decode('sort[b]=1').problems[0]).toMatchObject({ path: 'sort', rule: 'nested' });
  });

  it('drops unknown keys, or reports them when strict', () => {
    expect(decode('zz=1&zz[a]=2&__proto__=x&constructor=y').problems).toEqual([]);
    expect(decode('zz=1', true).problems).toEqual([
      { path: 'zz', rule: 'unknown', message: 'is not known here' },
    ]);
  });

  it('reads JSON text for declared objects', () => {
    expect(decode(`filter=${encodeURIComponent('{"a":1}')}`).values.filter).toEqual({ a: 1 });
    expect(decode('filter={').problems[0]?.rule).toBe('type');
    expect(decode(`filter=${encodeURIComponent('{"__proto__":{}}')}`).problems[0]?.rule).toBe(
      'name',
    );
  });

  it('names the field of NUL and of broken encoding', () => {
    expect(decode('text=a%00b').problems).toEqual([
      { path: 'text', rule: 'text', message: 'must not hold the NUL character' },
    ]);
    expect(decode('text=%ff').problems).toEqual([
      { path: 'text', rule: 'encoding', message: 'is not valid percent-encoding' },
    ]);
    expect(decode('%zz=1').problems[0]?.path).toBe('query');
  });

  it('decodes plus and percent, fills defaults and keeps literals as text', () => {
    expect(decode('text=a+b%2Bc').values).toEqual({ text: 'a b+c', limit: 25 });
    expect(decode('kind=a').values.kind).toBe('a');
    expect(decode('=1&&text').values).toEqual({ text: '', limit: 25 });
  });

  it('collects every problem', () => {
    expect(decode('price=x&flag=y&limit=z').problems.map(({ path }) => path)).toEqual([
      'price',
      'flag',
      'limit',
    ]);
  });
});

describe('path parameters and headers', () => {
  it('converts declared names only', () => {
    const problems: Problem[] = [];
    const params = textFields(Type.Object({ id: Type.Integer() }));
    expect({ ...decodeTexts(params, { id: '7', other: 'x' }, problems) }).toEqual({ id: 7 });
    decodeTexts(params, { id: 'x' }, problems);
    expect(problems).toEqual([{ path: 'id', rule: 'type', message: 'must be a whole number' }]);
  });

  it('has no inherited names', () => {
    expect('toString' in decodeTexts(textFields(Type.Object({})), {}, [])).toBe(false);
  });
});
