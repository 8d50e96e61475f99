/** "Who may act on this resource?": a walk down to everybody who is named on the way, each evaluated exactly. */

import { statementName } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';
import { type Footprint, footprintOf } from '../model/footprint.ts';
import { formatObject, type ObjectRef, sameObject } from '../model/grammar.ts';
import { keyOf, type Name } from '../model/model.ts';
import { type Circumstances, circumstancesOf, isSelf, resolveName, type World } from './ask.ts';
import type { Page, PageOptions, SubjectQuestion } from './engine.ts';
import { engineErrors } from './errors.ts';
import { isPlain } from './graph.ts';
import { limits } from './limits.ts';
import { readPage } from './pages.ts';
import { sift } from './sift.ts';

/**
 * One page of subjects as `Type:id`, in byte order. `Type:*` stands for everybody of the type who is not
 * named on the way to the resource; whoever is named is listed on his own.
 */
export async function listSubjects(world: World, question: SubjectQuestion, options: PageOptions): Promise<Page<string>> {
  const { resource, action, type } = question;
  if (!world.model.get(type)) throw invalid('subjectType', 'type', `no type is called "${cutText(type, 64)}"`);
  const goal = resolveName(world.model, resource.type, action);
  const circumstances = circumstancesOf(world.model, options);
  const footprint = footprintOf(world.model, goal);
  const objects = await objectsBelow(world, footprint, resource, circumstances);
  const page = await readPage(
    {
      question: `subjects ${formatObject(resource)} ${keyOf(goal)} ${type}`,
      candidates: candidatesOf(world, { footprint, objects, type, known: knownSubjects({ type, resource, circumstances }) }),
      keep: (ids) => allowedOf(world, { resource, goal, type, circumstances }, ids),
    },
    options,
  );
  return { ...page, items: page.items.map((id) => `${type}:${id}`) };
}

interface Asked {
  readonly resource: ObjectRef;
  readonly goal: Name;
  readonly type: string;
  readonly circumstances: Circumstances;
}

async function allowedOf(world: World, { resource, goal, type, circumstances }: Asked, ids: readonly string[]): Promise<readonly string[]> {
  const questions = ids.map((id) => ({ subject: { type, id, relation: '' }, object: resource, name: goal }));
  const bounds = await sift(world, questions, circumstances);
  return ids.filter((_, i) => bounds[i]?.sure || (questions[i] && isSelf(questions[i])));
}

/** Subjects that no stored tuple need name: the resource itself, everybody, and those of contextual tuples. */
function knownSubjects({ type, resource, circumstances }: Omit<Asked, 'goal'>): readonly string[] {
  const contextual = circumstances.contextual.map((t) => t.subject).filter((s) => s.type === type && s.relation === '');
  return ['*', ...(resource.type === type ? [resource.id] : []), ...contextual.map((s) => s.id)];
}

const most = limits.tuples + 1;

const walkText = `with recursive
  follow as materialized (select * from unnest((select $1::text[]), (select $2::text[]), (select $3::text[])) x(type, relation, subject_type)),
  sets as materialized (select * from unnest((select $4::text[]), (select $5::text[])) x(type, relation)),
  below(type, id, depth) as (
    select x.type collate "C", x.id collate "C", 0 from unnest((select $6::text[]), (select $7::text[])) x(type, id)
    union
    select f.subject_type, f.subject_id, b.depth + 1 from below b cross join lateral (
      select r.subject_type, r.subject_id from follow w cross join lateral (
        select t.subject_type, t.subject_id from penstock.tuples t
         where t.resource_type = w.type and t.resource_id = b.id and t.relation = w.relation
           and t.subject_type = w.subject_type and t.subject_relation = '' and t.subject_id <> '*'
         limit ${most}) r
       where w.type = b.type
      union all
      select r.subject_type, r.subject_id from sets w cross join lateral (
        select t.subject_type, t.subject_id from penstock.tuples t
         where t.resource_type = w.type and t.resource_id = b.id and t.relation = w.relation and t.subject_relation <> ''
         limit ${most}) r
       where w.type = b.type) f
     where b.depth < ${limits.depth}
  )
  select distinct type, id from (select type, id from below limit ${most}) x`;
const walkName = statementName(walkText);

/** The resource and every object that an answer about it can hang on. */
async function objectsBelow(
  { database }: World,
  { follows, sets }: Footprint,
  resource: ObjectRef,
  { contextual }: Circumstances,
): Promise<readonly ObjectRef[]> {
  const roots = [resource, ...contextual.map((t) => t.subject).filter((s) => isPlain(s) || s.relation !== '')];
  const unique = roots.filter((root, i) => roots.findIndex((other) => sameObject(other, root)) === i);
  const { rows } = await database.query<ObjectRef>({
    name: walkName,
    text: walkText,
    values: [
      follows.map((f) => f[0]),
      follows.map((f) => f[1]),
      follows.map((f) => f[2]),
      sets.map((s) => s[0]),
      sets.map((s) => s[1]),
      unique.map((o) => o.type),
      unique.map((o) => o.id),
    ],
  });
  if (rows.length > limits.tuples) throw engineErrors.BREADTH_LIMIT();
  return rows;
}

interface Below {
  readonly footprint: Footprint;
  readonly objects: readonly ObjectRef[];
  readonly type: string;
  readonly known: readonly string[];
}

const candidatesText = `select id from (
    select r.id from unnest((select $1::text[]), (select $2::text[])) o(type, id)
      join unnest((select $3::text[]), (select $4::text[])) p(type, relation) on p.type = o.type
      cross join lateral (
        select t.subject_id as id from penstock.tuples t
         where t.resource_type = o.type and t.resource_id = o.id and t.relation = p.relation
           and t.subject_type = $5::text and t.subject_relation = '' and t.subject_id > $6::text
         order by t.subject_id limit $7::bigint) r
    union all
    select r.id from unnest((select $8::text[])) r(id) where r.id > $6::text
  ) x group by id order by id collate "C" limit $7::bigint`;
const candidatesName = statementName(candidatesText);

function candidatesOf({ database }: World, { footprint, objects, type, known }: Below) {
  const columns = [
    objects.map((o) => o.type),
    objects.map((o) => o.id),
    footprint.probes.map((p) => p[0]),
    footprint.probes.map((p) => p[1]),
  ];
  return async (after: string, limit: number): Promise<readonly string[]> => {
    const values = [...columns, type, after, limit, known];
    const { rows } = await database.query<{ id: string }>({ name: candidatesName, text: candidatesText, values });
    return rows.map((row) => row.id);
  };
}
