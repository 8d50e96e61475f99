/** What tells the rows of a table apart, and so makes their ids. */
import type { KeyType } from '../../../../data/schema/language/record-key.ts';
import type { CatalogueRelation } from './catalogue.ts';
import { servedType } from './types.ts';

export interface KeyChoice {
  readonly columns: readonly string[];
  readonly types: readonly KeyType[];
  readonly origin: 'primary' | 'unique' | 'none';
  /** Of the constraint or index. */
  readonly name: string;
}

const noKey: KeyChoice = { columns: [], types: [], origin: 'none', name: '' };

/** Ids are short; a key of many columns is none that anybody would write down. */
const MAX_PARTS = 8;

/** The primary key, else the first unique index over columns that always have a value. */
export function keyChoice(relation: CatalogueRelation): KeyChoice {
  const primary = relation.constraints.find(({ kind }) => kind === 'primary');
  if (primary) return choiceOf(relation, { ...primary, origin: 'primary' }) ?? noKey;
  for (const index of relation.indexes) {
    if (!index.unique || index.partial || index.columns.length === 0) continue;
    const choice = choiceOf(relation, { ...index, origin: 'unique' });
    if (choice) return choice;
  }
  return noKey;
}

interface Candidate {
  readonly name: string;
  readonly columns: readonly string[];
  readonly origin: KeyChoice['origin'];
}

function choiceOf(relation: CatalogueRelation, { name, columns, origin }: Candidate): KeyChoice | undefined {
  const types = columns.map((column) => {
    const found = relation.columns.find((one) => one.name === column && one.notNull);
    const served = found && servedType(found.type);
    return served && 'form' in served ? served.keyType : undefined;
  });
  if (columns.length === 0 || columns.length > MAX_PARTS || !types.every((type): type is KeyType => type !== undefined)) return undefined;
  return { columns, types, origin, name };
}
