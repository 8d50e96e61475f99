/** The way down in the database says the same as a check, also about subject sets. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { resolveName } from './ask.ts';
import { createEngine } from './create-engine.ts';
import { isReachable } from './descent.ts';

const model = buildModel(
  [
    { name: 'User', relations: {}, permissions: {} },
    {
      name: 'Group',
      relations: { member: ['User'], lead: ['User'] },
      permissions: { use: ['member', 'lead'] },
    },
    {
      name: 'Doc',
      relations: { reader: ['User', 'Group#use'] },
      permissions: { read: ['reader'] },
    },
  ].map(parseDefinition),
  0,
);

describe('the way down', () => {
  let table: TupleTable;
  beforeAll(async () => {
    table = await openTupleTable();
    await table.replace([
      {
        subject: parseSubject('Group:crew#use', 'subject'),
        relation: 'reader',
        resource: parseObject('Doc:plan', 'resource'),
      },
    ]);
  });
  afterAll(() => table.close());

  it.each([
    ['Group:crew#use', true],
    ['Group:crew#member', true],
    ['Group:crew#lead', true],
    ['Group:other#member', false],
    ['Group:crew', false],
  ])('of %s is %s, as a check says', async (subject, allowed) => {
    const { database } = table;
    const question = {
      subject: parseSubject(subject, 'subject'),
      action: 'read',
      resource: parseObject('Doc:plan', 'resource'),
    };
    const name = resolveName(model, 'Doc', 'read');
    const { resource: object } = question;
    expect(await createEngine(model).check(database, [question])).toEqual([allowed]);
    expect(await isReachable({ model, database }, { ...question, object, name })).toBe(allowed);
  });
});
