/** Several questions by one statement. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import type { Tuple } from '../model/tuple.ts';
import { createEngine } from './create-engine.ts';
import type { AskOptions, Engine, Question } from './engine.ts';
import { createGrantCache } from './grant-cache/grant-cache.ts';

const definitions = [
  { name: 'User', relations: {}, permissions: {} },
  { name: 'Team', relations: { member: ['User'] }, permissions: { read: ['member'] } },
  {
    name: 'Doc',
    relations: {
      owner: ['User'],
      team: ['Team'],
      banned: ['User'],
      guest: ['User with place'],
    },
    permissions: {
      edit: ['owner'],
      read: ['edit', 'team->read'],
      calm: { exclusion: { base: ['owner'], subtract: ['banned'] } },
      visit: ['owner', 'guest'],
      open: ['*'],
    },
    conditions: { place: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
  },
].map(parseDefinition);
const model = buildModel(definitions, 1_000);
const engine = createEngine(model);

let table: TupleTable;
let sent: string[] = [];
let counted: Queryable;
beforeAll(async () => {
  table = await openTupleTable();
  counted = {
    query: (statement) => {
      sent.push(statement.text);
      return table.database.query(statement);
    },
  };
});
afterAll(() => table.close());
beforeEach(() => {
  sent = [];
});

const tuple = (text: string, more: Partial<Tuple> = {}): Tuple => {
  const [subject = '', relation = '', resource = ''] = text.split(' ');
  return {
    ...{ subject: parseSubject(subject, 'subject'), relation },
    ...{ resource: parseObject(resource, 'resource'), ...more },
  };
};
const questionOf = (text: string): Question => {
  const { relation, ...rest } = tuple(text);
  return { ...rest, action: relation };
};
const all = async (
  texts: readonly string[],
  {
    reach = 'near' as const,
    of = engine,
    ...options
  }: AskOptions & { of?: Engine; reach?: 'near' | 'held' } = {},
) =>
  (await of.probeAll(counted, texts.map(questionOf), options, reach))?.map(
    ({ allowed }) => allowed,
  );

describe('several questions', () => {
  it('are one statement, whatever is asked about the objects of a type', async () => {
    await table.replace([
      tuple('User:a owner Doc:1'),
      tuple('User:a banned Doc:1'),
      tuple('Team:t team Doc:2'),
      tuple('User:b guest Doc:3', { condition: 'place', attributes: { place: 'home' } }),
      ...Array.from({ length: 17 }, (_, n) => tuple(`User:o${n} owner Doc:many`)),
    ]);
    const texts = [
      ...['User:a edit Doc:1', 'User:a calm Doc:1', 'User:b edit Doc:1', 'User:a owner Doc:1'],
      ...['User:a read Doc:2', 'User:a edit Doc:2', 'User:b visit Doc:3', 'User:x open Doc:9'],
      ...['User:x edit Doc:many', 'User:a edit Doc:nowhere'],
    ];
    expect(await all(texts)).toEqual([
      ...[true, false, false, true],
      ...[undefined, false, undefined, true],
      ...[undefined, false],
    ]);
    expect(
      await all(['User:b visit Doc:3', 'User:a edit Doc:3'], { context: { place: 'home' } }),
    ).toEqual([true, false]);
    expect(sent).toHaveLength(2);
  });

  it('are left alone where they are of several types, know words of their own or bring relations', async () => {
    const given = tuple('User:a owner Doc:1');
    expect(await all(['User:a edit Doc:1', 'User:a read Team:t'])).toBeUndefined();
    expect(await all(['User:a edit Doc:1', 'User:a fly Doc:1'])).toBeUndefined();
    expect(await all(['Doc:1 edit Doc:1'])).toBeUndefined();
    expect(await all(['User:a edit Doc:1'], { contextual: [given] })).toBeUndefined();
    expect(await all([])).toBeUndefined();
    expect(sent).toEqual([]);
  });

  it('take what their subject is known to reach, as long as that stands', async () => {
    const keeping = createEngine(model, createGrantCache(table.database));
    await table.replace([tuple('User:a member Team:t'), tuple('Team:t team Doc:1')]);
    const texts = ['User:a read Doc:1', 'User:a read Doc:2'];
    const held = () => all(texts, { of: keeping, reach: 'held' });
    for (let i = 0; i < 8; i += 1) await held();
    sent = [];
    expect(await held()).toEqual([true, false]);
    expect(sent).toHaveLength(1);
    // Others reach something else, and other actions rest on something else.
    for (const other of ['User:b read Doc:1', 'User:a edit Doc:1'])
      expect(await all([...texts, other], { of: keeping, reach: 'held' })).toBeUndefined();
    await table.replace([tuple('Team:t team Doc:1')]);
    expect((await held())?.[0]).not.toBe(true);
  });
});
