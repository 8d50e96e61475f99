/** The public relationship cases: models, tuples, and what must follow from them (README.md). */
import { readFile } from 'node:fs/promises';

export interface CaseResource {
  readonly name: string;
  /** Lists of those who may stand in them, or objects with such a list and marks. */
  readonly relations: Readonly<Record<string, unknown>>;
  readonly permissions: Readonly<Record<string, unknown>>;
  /** Rules in CEL with the types of their parameters. */
  readonly conditions?: Readonly<Record<string, unknown>>;
}

export interface CaseTuple {
  readonly subject: string;
  readonly relation: string;
  readonly resource: string;
  readonly condition?: string;
  readonly attributes?: Readonly<Record<string, unknown>>;
}

/** Values that come with a question. */
type CaseContext = Readonly<Record<string, unknown>>;

export interface CaseCheck {
  readonly subject: string;
  readonly permission: string;
  readonly resource: string;
  readonly allowed: boolean;
  readonly context?: CaseContext;
  /** What the check rests on beyond the plain language. */
  readonly needs?: readonly string[];
}

export interface CaseList {
  readonly subject: string;
  readonly permission: string;
  readonly type: string;
  /** As `Type:id`. */
  readonly resources: readonly string[];
  readonly context?: CaseContext;
  readonly needs?: readonly string[];
}

export interface CaseWho {
  readonly resource: string;
  readonly permission: string;
  readonly subjectType: string;
  /** As `Type:id`. */
  readonly subjects: readonly string[];
  readonly context?: CaseContext;
}

export interface RelationshipCase {
  readonly id: string;
  readonly resources: readonly CaseResource[];
  readonly relations: readonly CaseTuple[];
  /** Tuples of an object on itself, which we refuse to write; checks that need them say so. */
  readonly selfRelations?: readonly CaseTuple[];
  readonly checks: readonly CaseCheck[];
  readonly lists: readonly CaseList[];
  readonly who?: readonly CaseWho[];
}

export const ownCases = new URL('relationship-cases.json', import.meta.url);
/** Those that rest on conditions. */
export const conditionCases = new URL('condition-cases.json', import.meta.url);

export async function readCases(
  file: URL | string = ownCases,
): Promise<readonly RelationshipCase[]> {
  const { cases } = JSON.parse(await readFile(file, 'utf8')) as {
    readonly cases?: readonly RelationshipCase[];
  };
  if (!Array.isArray(cases)) throw new Error('it has no list of "cases"');
  return cases;
}

/** True for what only holds with a tuple of an object on itself. */
export const needsSelfRelation = ({
  needs = [],
}: {
  readonly needs?: readonly string[];
}): boolean => needs.includes('self_relation');

/** A list rests on such a tuple when a check of one of its entries does. */
export const listNeedsSelfRelation = ({ checks }: RelationshipCase, list: CaseList): boolean =>
  needsSelfRelation(list) ||
  checks.some(
    (check) =>
      needsSelfRelation(check) &&
      check.subject === list.subject &&
      check.permission === list.permission &&
      list.resources.includes(check.resource),
  );
