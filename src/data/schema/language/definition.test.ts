import { describe, expect, it } from 'vitest';
import type { FieldInput, FieldMap } from './definition.ts';
import { typeSignatures } from './field.ts';
import { derivedName, schemaNameProblem } from './names.ts';
import { checkModelOptions } from './options.ts';
import { parseFields } from './parse.ts';

const problems = (fields: unknown) =>
  parseFields(fields).problems.map(({ path, rule }) => `${path} ${rule}`);
const signatures = (fields: FieldMap) =>
  Object.fromEntries(typeSignatures(parseFields(fields).tree.fields));

describe('the schema language', () => {
  it('reads every form of a field', () => {
    const fields = {
      short: 'String',
      long: { type: 'Number', required: true },
      list: ['String'],
      longList: { type: ['Number'] },
      lists: [['String']],
      nested: { inner: 'Boolean', deeper: { at: { type: 'Date', required: true } } },
      typedNested: { type: { a: 'String' }, required: true },
      rows: [{ sku: 'String', price: { type: 'Number' } }],
      relation: { type: 'Relation', model: 'Other' },
      relations: [{ type: 'Relation', model: 'Other' }],
      shortRelations: { type: ['Relation'], model: 'Other' },
      vector: { type: 'Vector', dimensions: 3 },
      big: { type: 'Number', sqlType: 'BIGINT' },
      json: 'JSON',
      _id: 'ObjectId',
      createdAt: 'Date',
      updatedAt: { type: 'Date' },
    } as const satisfies FieldMap;
    expect(problems(fields)).toEqual([]);
    expect(signatures(fields)).toEqual({
      short: 'string',
      long: 'number:double precision',
      list: '[string]',
      longList: '[number:double precision]',
      lists: '[[string]]',
      nested: 'object',
      'nested.inner': 'boolean',
      'nested.deeper': 'object',
      'nested.deeper.at': 'date',
      typedNested: 'object',
      'typedNested.a': 'string',
      rows: '[object]',
      'rows.sku': 'string',
      'rows.price': 'number:double precision',
      relation: 'relation:Other',
      relations: '[relation:Other]',
      shortRelations: '[relation:Other]',
      vector: 'vector:3',
      big: 'number:bigint',
      json: 'json',
    });
  });

  it('takes a primary key for what is required and unique', () => {
    const { tree } = parseFields({ code: { type: 'String', primaryKey: true } });
    expect(tree.fields.get('code')).toMatchObject({ required: true, unique: true });
    expect(problems({ code: { type: 'JSON', primaryKey: true } })).toContain(
      'fields.code.primaryKey option',
    );
  });

  it.each<[string, unknown, string]>([
    ['an unknown type', { a: 'Text' }, 'fields.a.type type'],
    ['a type of a prototype', { a: 'constructor' }, 'fields.a.type type'],
    ['no field', {}, 'fields empty'],
    ['no object', ['String'], 'fields type'],
    ['a list of two', { a: ['String', 'Number'] }, 'fields.a.type array'],
    ['an unknown option', { a: { type: 'String', requird: true } }, 'fields.a.requird option'],
    [
      'a required that is no boolean',
      { a: { type: 'String', required: 'yes' } },
      'fields.a.required type',
    ],
    ['unique without required', { a: { type: 'String', unique: true } }, 'fields.a.unique unique'],
    [
      'unique inside',
      { a: { b: { type: 'String', unique: true, required: true } } },
      'fields.a.b.unique unique',
    ],
    ['a relation without model', { a: 'Relation' }, 'fields.a.model required'],
    [
      'a relation to what can be no schema',
      { a: { type: 'Relation', model: 'x"; drop table y' } },
      'fields.a.model name',
    ],
    [
      'onDelete of a list',
      { a: [{ type: 'Relation', model: 'X', onDelete: 'cascade' }] },
      'fields.a.onDelete option',
    ],
    [
      'onDelete inside',
      { a: { b: { type: 'Relation', model: 'X', onDelete: 'setNull' } } },
      'fields.a.b.onDelete option',
    ],
    [
      'a relation in the elements of a list',
      { a: [{ b: { type: 'Relation', model: 'X' } }] },
      'fields.a.b relation',
    ],
    [
      'setNull on a required relation',
      { a: { type: 'Relation', model: 'X', required: true, onDelete: 'setNull' } },
      'fields.a.onDelete setNull',
    ],
    [
      'an sqlType of another type',
      { a: { type: 'String', sqlType: 'INT' } },
      'fields.a.sqlType sqlType',
    ],
    ['an enum of other values', { a: { type: 'Number', enum: ['a'] } }, 'fields.a.enum enum'],
    ['a default of another type', { a: { type: 'Number', default: '1' } }, 'fields.a.default type'],
    [
      'a default outside the enum',
      { a: { type: 'String', enum: ['x'], default: 'y' } },
      'fields.a.default enum',
    ],
    [
      'a default in a list',
      { a: { type: ['Number'], default: [1, 'x'] } },
      'fields.a.default.1 type',
    ],
    [
      'a negative length',
      { a: { type: 'String', validate: { minLength: -1 } } },
      'fields.a.validate.minLength minimum',
    ],
    [
      'lengths that exclude each other',
      { a: { type: 'String', validate: { minLength: 5, maxLength: 2 } } },
      'fields.a.validate length',
    ],
    [
      'numbers that exclude each other',
      { a: { type: 'Number', validate: { min: 5, max: 2 } } },
      'fields.a.validate range',
    ],
    [
      'an empty open range',
      { a: { type: 'Number', validate: { exclusiveMin: 5, max: 5 } } },
      'fields.a.validate range',
    ],
    [
      'items that exclude each other',
      { a: { type: ['String'], validate: { minItems: 3, maxItems: 2 } } },
      'fields.a.validate length',
    ],
    [
      'more items than a list holds',
      { a: { type: ['String'], validate: { minItems: 20_000 } } },
      'fields.a.validate length',
    ],
    [
      'a pattern with lookahead',
      { a: { type: 'String', validate: { pattern: '(?=a)b' } } },
      'fields.a.validate.pattern pattern',
    ],
    ['another type for _id', { _id: 'String', a: 'String' }, 'fields._id type'],
    ['a column of the database', { xmin: 'Number' }, 'fields.xmin name'],
    ['a name of Object.prototype', { toString: 'String' }, 'fields.toString name'],
    ['a Vector without dimensions', { a: { type: 'Vector' } }, 'fields.a.dimensions required'],
  ])('refuses %s', (_, fields, problem) => {
    expect(problems(fields)).toContain(problem);
  });

  it.each([
    [{ type: 'String', maxLength: 200 }, 'did you mean validate.maxLength?'],
    [{ type: 'String', requird: true }, 'did you mean required?'],
    [{ type: 'String', colour: 'red' }, 'is not an option of String'],
  ])('says where an option belongs: %j', (field, advice) => {
    const [problem] = parseFields({ a: field }).problems;
    expect(problem?.message.endsWith(advice)).toBe(true);
  });

  it('bounds depth and number of fields', () => {
    let deep: FieldInput = 'String';
    for (let i = 0; i < 50; i++) deep = { a: deep };
    expect(problems({ a: deep })[0]).toMatch(/ depth$/);
    let list: FieldInput = 'String';
    for (let i = 0; i < 50; i++) list = [list];
    expect(problems({ a: list })[0]).toMatch(/ depth$/);
    expect(
      problems(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`f${i}`, 'String']))),
    ).toContain('fields count');
  });

  it.each([
    '',
    'a b',
    'a-b',
    '1a',
    'a"b',
    'a\0',
    'x'.repeat(64),
    'function',
    'FUNCTION',
    'many',
    'views',
  ])('refuses the schema name %j', (name) => {
    expect(schemaNameProblem(name)).toBeDefined();
  });

  it('makes names of at most 63 bytes that differ with their parts', () => {
    const long = 'x'.repeat(63);
    expect(derivedName('ix', long, long)).toHaveLength(63);
    expect(derivedName('ix', 'a', 'b_c')).not.toBe(derivedName('ix', 'a_b', 'c'));
  });

  it('refuses unknown options with their place', () => {
    const unknown = {
      conduit: { cms: { crudOperations: { destroy: {} } }, softDelete: { keep: 1 } },
      time: true,
    };
    expect(checkModelOptions(unknown).map(({ path }) => path)).toEqual([
      'modelOptions.conduit.cms.crudOperations.destroy',
      'modelOptions.conduit.softDelete.keep',
      'modelOptions.time',
    ]);
    expect(checkModelOptions({ conduit: { permissions: { canModify: 'Maybe' } } })[0]?.path).toBe(
      'modelOptions.conduit.permissions.canModify',
    );
    expect(
      checkModelOptions({ timestamps: true, conduit: { authorization: { enabled: true } } }),
    ).toEqual([]);
  });
});
