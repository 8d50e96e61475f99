/** The public relationship cases (acceptance/conformance/README.md), asked of the engine itself: every check and every list. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CaseTuple,
  listNeedsSelfRelation,
  needsSelfRelation,
  type RelationshipCase,
  readCases,
} from '../../../../acceptance/conformance/cases.ts';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import { parseDefinition } from '../model/definition.ts';
import { formatObject, parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel, type Model } from '../model/model.ts';
import { checkAgainst } from '../model/reference-check.ts';
import { type Tuple, tupleProblem } from '../model/tuple.ts';
import { createEngine } from './create-engine.ts';

const cases = await readCases();

let table: TupleTable;
beforeAll(async () => {
  table = await openTupleTable();
});
afterAll(() => table.close());

const tupleOf = ({ subject, relation, resource }: CaseTuple): Tuple => ({
  subject: parseSubject(subject, 'subject'),
  relation,
  resource: parseObject(resource, 'resource'),
});

function modelOf({ resources }: RelationshipCase): Model {
  const definitions = resources.map(parseDefinition);
  expect(definitions.flatMap((definition) => checkAgainst(definition, definitions))).toEqual([]);
  return buildModel(definitions, 1);
}

describe('relationship cases', () => {
  it('are all there', () => expect(cases).toHaveLength(93));

  it.each(cases.map((one) => [one.id, one] as const))('%s', async (_, one) => {
    const model = modelOf(one);
    const tuples = one.relations.map(tupleOf);
    expect(tuples.flatMap((tuple) => tupleProblem(model, tuple)?.message ?? [])).toEqual([]);
    await table.replace(tuples);

    await compare(model, {
      ...one,
      checks: one.checks.filter((check) => !needsSelfRelation(check)),
      lists: one.lists.filter((list) => !listNeedsSelfRelation(one, list)),
    });
    if (!one.selfRelations) return;
    await table.replace([...tuples, ...one.selfRelations.map(tupleOf)]);
    await compare(model, {
      ...one,
      checks: one.checks.filter(needsSelfRelation),
      lists: one.lists.filter((list) => listNeedsSelfRelation(one, list)),
    });
  });
});

async function compare(model: Model, { checks, lists }: RelationshipCase): Promise<void> {
  const engine = createEngine(model);
  const questions = checks.map(({ subject, permission, resource }) => ({
    subject: parseSubject(subject, 'subject'),
    action: permission,
    resource: parseObject(resource, 'resource'),
  }));
  const allowed = await engine.check(table.database, questions);
  expect(checks.map((check, i) => [check, allowed[i]])).toEqual(
    checks.map((check) => [check, check.allowed]),
  );
  const probes = await Promise.all(
    questions.map((question) => engine.probe(table.database, question)),
  );
  const decided = checks.map((check, i) => [check, probes[i]?.allowed ?? check.allowed]);
  expect(decided).toEqual(checks.map((check) => [check, check.allowed]));
  // The same of all questions about a type, and of all that ask for the same.
  const ofType = (one: (typeof questions)[number]): string => one.resource.type;
  const ofName = (one: (typeof questions)[number]): string => `${one.resource.type} ${one.action}`;
  for (const group of [ofType, ofName].flatMap((by) => [...Map.groupBy(questions, by).values()])) {
    const found = await engine.probeAll(table.database, group, {}, 'near');
    const expected = group.map((one) => allowed[questions.indexOf(one)]);
    expect(group.map((_, i) => found?.[i]?.allowed ?? expected[i])).toEqual(expected);
  }
  for (const list of lists) {
    const question = {
      subject: parseSubject(list.subject, 'subject'),
      action: list.permission,
      type: list.type,
    };
    const { items, cursor } = await engine.listResources(table.database, question, { limit: 1000 });
    const resources = items.map((id) => formatObject({ type: list.type, id }));
    expect([list, resources, cursor]).toEqual([list, [...list.resources].sort(), undefined]);
  }
}
