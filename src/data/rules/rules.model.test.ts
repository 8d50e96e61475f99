// Random rules on random rows: PostgreSQL answers exactly what the evaluator answers, and fails never.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { randomOf } from '../../../test/support/random-numbers.ts';
import {
  fields,
  inputValues,
  type Json,
  parameters,
  rowOf,
  ruleOf,
} from '../../../test/support/random-rules.ts';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import { system } from '../../kernel/caller.ts';
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import { recordEnvironment } from './environment.ts';
import type { Expression } from './expression.ts';
import { type CompiledRule, compileRule, inputsFrom } from './rule.ts';
import { RuleError } from './syntax.ts';
import type { RuleType } from './types.ts';
import { type RuleValue, readValue } from './values.ts';

const admin = system('test');
const printed = (value: unknown): string =>
  JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? `${inner}n` : inner));

/** Neither true nor false is null, which a negation keeps: so it is not the same as false. */
const answerOf = (reduced: Expression): boolean | null =>
  reduced.kind === 'constant' && typeof reduced.value === 'boolean' ? reduced.value : null;

describe('rules in PostgreSQL and in JavaScript', () => {
  let kernel: RecordKernel;
  let schema: CompiledSchema;
  let rows: readonly Json[];
  let authors: readonly string[];

  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.schemas.create(admin, { name: 'Author', fields: { name: 'String' } });
    await kernel.schemas.create(admin, { name: 'Row', fields });
    const random = randomOf(11);
    const made = await kernel.records.createMany(admin, 'Author', [{}, {}, {}]);
    authors = made.map(({ id }) => id);
    await kernel.records.createMany(
      admin,
      'Row',
      Array.from({ length: 50 }, () => rowOf(random, authors)),
    );
    rows = JSON.parse(
      await kernel.records.find(admin, 'Row', { filter: { kind: 'all', of: [] } }),
    ) as Json[];
    schema = kernel.schemas.get('Row') as CompiledSchema;
  });
  afterAll(() => kernel.close());

  /** Answers of all rows, per rule: true, false or null. */
  async function asked(
    rules: readonly (readonly [CompiledRule, ReadonlyMap<string, RuleValue>])[],
  ) {
    const values: unknown[] = [];
    const target = { alias: 'r', next: (value: unknown) => `$${values.push(value)}` };
    const tests = rules.map(([rule, known]) => rule.predicate(inputsFrom(known), target).sql);
    const text = `select r."_id" as id, array[${tests.join(', ')}]::boolean[] as answers from ${schema.rows} r`;
    const { rows: found } = await kernel.database.query<{
      id: string;
      answers: (boolean | null)[];
    }>({ text, values });
    return new Map(found.map(({ id, answers }) => [id, answers]));
  }

  type Sample = readonly [rule: CompiledRule, known: ReadonlyMap<string, RuleValue>];

  /** Rules that can be part of a query, each with values. */
  function samplesOf(seed: number, count: number): Sample[] {
    const random = randomOf(seed);
    const environment = recordEnvironment(schema, parameters);
    return Array.from({ length: count }, () =>
      ruleOf(random, 'bool', random.pick([1, 2, 3])),
    ).flatMap((text): Sample[] => {
      try {
        return [[compileRule(text, environment), inputValues(random, authors)]];
      } catch (error) {
        if (error instanceof RuleError) return [];
        throw new Error(text, { cause: error });
      }
    });
  }

  it('agree about thousands of random rules', async () => {
    const seed = Number(process.env.RULES_SEED ?? 2026);
    const samples = samplesOf(seed, Number(process.env.RULES ?? 3_000));
    const odd: string[][] = [];
    let held = 0;
    for (let from = 0; from < samples.length; from += 40) {
      const batch = samples.slice(from, from + 40);
      const answers = await asked(batch).catch((error: unknown) => {
        throw new Error(batch.map(([{ text }]) => text).join('\n'), { cause: error });
      });
      for (const [place, [rule, known]] of batch.entries()) {
        const expected = rows.map((row) => answerOf(rule.rest(inputsFrom(known), row)));
        const found = rows.map((row) => answers.get(String(row._id))?.[place]);
        const at = rows.findIndex((_, i) => expected[i] !== found[i]);
        if (at >= 0)
          odd.push([
            rule.text,
            printed([...known]),
            printed(rows[at]),
            `sql: ${found[at]}, evaluator: ${expected[at]}`,
          ]);
        held += expected.filter((one) => one === true).length;
      }
    }
    expect(odd.slice(0, 5)).toEqual([]);
    expect(samples.length).toBeGreaterThan(2_700);
    expect(held).toBeGreaterThan(20_000);
  });

  it('agree about known lists and maps of which a record chooses, to the last digit', async () => {
    const chosen: readonly (readonly [text: string, holds: boolean | null])[] = [
      ['{"a": 9007199254740993}[record.s] == 9007199254740992', false],
      ['{"a": 9007199254740993}[record.s] == 9007199254740993', true],
      ['{"a": {"b": 9007199254740993}}[record.s].b == 9007199254740993', true],
      ['{"a": [9007199254740993]}[record.s].exists(x, x == 9007199254740993)', true],
      ['9007199254740992 in {"a": [9007199254740993]}[record.s]', false],
      ['{"a": [1]}[record.s] == [1] && size({"a": [1]}[record.s]) == 1', true],
      ['(record.s == "a" ? [9007199254740993] : [2])[0] == 9007199254740992', false],
      ['{"a": timestamp("2026-01-01T00:00:00.000001Z")}[record.s] > pt', true],
      ['{"b": 1}[record.s] != 2', null],
      ['{"null": 1}[record.t] == 1', null],
      ['{"a": null}[record.s] == null && {"a": null}[record.s] != record.s', true],
      ['{"b": null}[record.s] == null', null],
      ['kmj[record.s] == record.s', false],
      ['kmj[record.s] == null', true],
      ['record.s in kmn && kmn[record.s].containsIP("10.0.0.7")', true],
      ['[9007199254740993, 2][record.i] == 9007199254740992', false],
      ['[2][record.i] == 2 && [2][record.i + 1] == 2', null],
      ['record.meta.x == 9007199254740993', true],
      ['record.s in kmj ? kml[record.s].all(x, x in record.tags) : false', true],
    ];
    const given = {
      pt: '2026-01-01T00:00:00Z',
      kmj: { a: null },
      kmn: { a: '10.0.0.0/8' },
      kml: { a: ['x'] },
    };
    const known = new Map<string, RuleValue>(
      Object.entries(given).map(([name, value]) => [
        name,
        readValue(parameters.get(name) as RuleType, value, name),
      ]),
    );
    const { id } = await kernel.records.create(admin, 'Row', {
      s: 'a',
      i: 0,
      tags: ['x'],
      meta: { x: 2 ** 53 },
    });
    const { json } = await kernel.records.get(admin, 'Row', id);
    const row = JSON.parse(json) as Json;
    const environment = recordEnvironment(schema, parameters);
    const rules = chosen.map(([text]) => [compileRule(text, environment), known] as const);
    const answers = (await asked(rules)).get(id);
    for (const [place, [rule]] of rules.entries()) {
      const evaluated = answerOf(rule.rest(inputsFrom(known), row));
      expect([rule.text, evaluated, answers?.[place]]).toEqual([
        rule.text,
        chosen[place]?.[1],
        chosen[place]?.[1],
      ]);
    }
  });

  it('find nothing out about moments without parts, which tables of others hold', async () => {
    await kernel.schemas.create(admin, { name: 'Timeless', fields: { at: 'Date' } });
    const timeless = kernel.schemas.get('Timeless') as CompiledSchema;
    const at = '2026-01-31T10:20:30.400Z';
    await kernel.records.createMany(admin, 'Timeless', [{ at }, {}, {}, {}]);
    const moments = ['infinity', '-infinity', '20000-01-01T00:00:00Z'];
    await kernel.database.query({
      text: `update app."Timeless" t set at = v.at::timestamptz from (
        select r."_id", ($1::text[])[row_number() over (order by r."_id")] as at from app."Timeless" r where r.at is null) v
        where v."_id" = t."_id"`,
      values: [moments],
    });
    const environment = recordEnvironment(timeless, new Map());
    const now = new Map<string, RuleValue>([['now', 0n]]);
    const texts = [
      'record.at.getHours() == 10',
      'record.at.getMilliseconds("+02:00") == 400',
      'int(record.at) > 0',
      'record.at - duration("1h") > now',
    ];
    const values: unknown[] = [];
    const target = { alias: 'r', next: (value: unknown) => `$${values.push(value)}` };
    const tests = texts.map(
      (text) => compileRule(text, environment).predicate(inputsFrom(now), target).sql,
    );
    const { rows: found } = await kernel.database.query<{ at: string; holds: (boolean | null)[] }>({
      text: `select r.at::text as at, array[${tests.join(', ')}]::boolean[] as holds from ${timeless.rows} r order by r.at`,
      values,
    });
    const [past, one, ...later] = found.map(({ holds }) => holds.map((held) => held === true));
    expect(one).toEqual(texts.map(() => true));
    for (const held of [past, ...later]) expect(held).toEqual(texts.map(() => false));
  });
});
