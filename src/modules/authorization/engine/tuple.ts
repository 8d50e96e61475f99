/** A tuple as the engine sees it: subject stands in relation to resource. */
import { formatObject, formatSubject, type ObjectRef, type SubjectRef } from '../model/grammar.ts';

export interface Tuple {
  readonly subject: SubjectRef;
  readonly relation: string;
  readonly resource: ObjectRef;
  /** Name of the condition of the resource's type that must hold. */
  readonly condition?: string | undefined;
  /** What the condition may look at beside the request. */
  readonly attributes?: Readonly<Record<string, unknown>> | undefined;
  /** Its time is over, by the clock of the database. */
  readonly expired?: boolean | undefined;
}

/** `subject#relation@resource`, as the wire writes it. */
export const formatTuple = (tuple: Tuple): string => `${formatSubject(tuple.subject)}#${tuple.relation}@${formatObject(tuple.resource)}`;

/** Tuples by the place where an evaluation looks for them. */
export interface TupleIndex {
  of(resource: ObjectRef, relation: string): readonly Tuple[];
}

/** Indexes tuples; of two equal ones the later counts. */
export function indexTuples(tuples: Iterable<Tuple>): TupleIndex {
  const byPlace = new Map<string, Map<string, Tuple>>();
  for (const tuple of tuples) {
    const place = placeOf(tuple.resource, tuple.relation);
    let bucket = byPlace.get(place);
    if (!bucket) {
      bucket = new Map();
      byPlace.set(place, bucket);
    }
    bucket.set(formatSubject(tuple.subject), tuple);
  }
  const indexed = new Map([...byPlace].map(([place, bucket]) => [place, [...bucket.values()]]));
  return { of: (resource, relation) => indexed.get(placeOf(resource, relation)) ?? [] };
}

const placeOf = (resource: ObjectRef, relation: string): string => `${resource.type}:${resource.id}#${relation}`;
