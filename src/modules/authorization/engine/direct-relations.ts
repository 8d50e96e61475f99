/** Relations in which a subject stands on a resource by a tuple of its own. */
import { sql } from '../../../kernel/database/sql.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import { grantedAction } from '../model/model.ts';
import { fits } from '../model/validity.ts';
import type { World } from './ask.ts';

/** Names in byte order; tuples whose time is over, that need a condition or that fit no more are left out. */
export async function directRelations({ model, database }: World, subject: SubjectRef, resource: ObjectRef): Promise<readonly string[]> {
  const { rows } = await database.query<{ relation: string }>(sql`
    select relation from penstock.tuples
     where resource_type = ${resource.type} and resource_id = ${resource.id}
       and subject_type = ${subject.type} and subject_id = ${subject.id} and subject_relation = ${subject.relation}
       and condition is null and (expires_at is null or expires_at > now())
     order by relation`);
  return rows
    .map((row) => row.relation)
    .filter((relation) => grantedAction(relation) === undefined && fits(model, { subject, relation, resource }));
}
