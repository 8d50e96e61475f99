import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fieldNameProblem, schemaNameProblem } from '../../../../data/schema/language/names.ts';
import { simpleRules } from './fields.ts';
import { fieldNames, importedPrefix, schemaNames } from './names.ts';

describe('names of tables and columns', () => {
  const reserved = new Set(['_id', '__v', 'createdAt', 'updatedAt']);

  it('become valid names that differ, always the same', () => {
    const name = fc.oneof(
      fc.string({ maxLength: 70 }),
      fc.constantFrom(
        'a b',
        'a-b',
        'a_b',
        'A_b',
        '_id',
        '__v',
        'createdAt',
        '__proto__',
        'xmin',
        '1',
        '',
      ),
    );
    fc.assert(
      fc.property(fc.uniqueArray(name, { maxLength: 12 }), (columns) => {
        const names = fieldNames(columns, reserved);
        expect(names).toEqual(fieldNames(columns, reserved));
        expect(new Set(names).size).toBe(columns.length);
        for (const one of names)
          expect([fieldNameProblem(one, true), reserved.has(one)]).toEqual([undefined, false]);
      }),
    );
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(fc.constantFrom('public', 'x'), name), {
          selector: (pair) => pair.join('\0'),
          maxLength: 12,
        }),
        (tables) => {
          const names = schemaNames(
            tables.map(([schema, table]) => ({ schema, name: table })),
            new Set(['imp_a_b']),
          ).map((one) => importedPrefix + one);
          expect(new Set(names.map((one) => one.toLowerCase())).size).toBe(tables.length);
          for (const one of names)
            expect([schemaNameProblem(one), one.toLowerCase() === 'imp_a_b']).toEqual([
              undefined,
              false,
            ]);
        },
      ),
    );
  });

  it('say of tables of one name in which schema they are', () => {
    const tables = [
      { schema: 'hr', name: 'actors' },
      { schema: 'hr', name: 'sales_actors' },
      { schema: 'public', name: 'actors' },
      { schema: 'sales', name: 'Actors' },
      { schema: 'sales', name: 'orders' },
      { schema: 'shop', name: 'orders' },
    ];
    const names = [
      'hr_actors',
      'sales_actors',
      'actors',
      // Somebody is called so.
      expect.stringMatching(/^sales_Actors_[0-9a-f]{8}$/),
      'orders',
      'shop_orders',
    ];
    expect(schemaNames(tables, new Set())).toEqual(names);
    // They stay when some of the tables have their schema by now, and when the short name is taken.
    expect(schemaNames(tables.slice(3), new Set(['imp_actors']), tables)).toEqual([
      'sales_Actors',
      'orders',
      'shop_orders',
    ]);
    expect(schemaNames(tables.slice(4), new Set(['imp_orders']), tables)).toEqual([
      'sales_orders',
      'shop_orders',
    ]);
  });

  it('stay as they are where they can', () => {
    expect(fieldNames(['a b', 'a_b', 'naïve', 'from'], reserved)).toEqual([
      expect.stringMatching(/^a_b_[0-9a-f]{8}$/),
      'a_b',
      'naive',
      'from',
    ]);
    expect(fieldNames(['createdAt'], new Set(['_id', '__v']))).toEqual(['createdAt']);
  });
});

describe('rules of the database', () => {
  it.each([
    [
      'CHECK (((VALUE >= 1901) AND (VALUE <= 2155)))',
      ['VALUE'],
      { validate: { min: 1901, max: 2155 } },
    ],
    ['CHECK ((quantity > 0))', ['quantity'], { validate: { exclusiveMin: 0 } }],
    ['CHECK (("Price" < (10.5)::numeric))', ['"Price"'], { validate: { exclusiveMax: 10.5 } }],
    ["CHECK ((n >= '-5'::integer))", ['n'], { validate: { min: -5 } }],
    [
      "CHECK (((status)::text = ANY ((ARRAY['draft'::character varying, 'it''s'::character varying])::text[])))",
      ['status'],
      { validate: {}, enum: ['draft', "it's"] },
    ],
    [
      "CHECK ((kind = ANY (ARRAY['a'::text, 'b, c'::text])))",
      ['kind'],
      { validate: {}, enum: ['a', 'b, c'] },
    ],
    ['CHECK ((length(name) < 20))', ['name'], undefined],
    ['CHECK (((a > 0) AND (b > 0)))', ['a'], undefined],
    ['CHECK (((a > 0) OR (a < 5)))', ['a'], undefined],
    ['CHECK ((a > b))', ['a'], undefined],
    ["CHECK ((upper((p)::text) = ANY (ARRAY['A'::text])))", ['p'], undefined],
    [`CHECK ((a > ${'9'.repeat(20_000)}))`, ['a'], undefined],
  ])('%s', (check, subjects, rules) => {
    expect(simpleRules(check, subjects)).toEqual(rules);
  });
});
