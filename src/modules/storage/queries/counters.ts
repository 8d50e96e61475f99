/**
 * The SQL of what containers and owners use (decisions 179 and 250). Where nothing bounds them, growth is written down
 * beside that of others and added later; a container or an owner with a quota is locked and changed at once.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { firstOf, statement } from './statement.ts';

const containers = '"app"."_StorageContainer"';
const growth = 'penstock.storage_growth';
const owners = 'penstock.storage_owners';

/** Whose files are counted beside those of their container. */
export interface Charge {
  /** `Type:id`. */
  readonly owner: string;
  /** Bytes that all their files may have; null: any number. */
  readonly quota: number | null;
}

/** What a container and an owner grow by; negative where something goes. */
export interface Growth {
  readonly container: string;
  readonly bytes: number;
  readonly files: number;
  /** Nobody, where a file belongs to nobody or stays with its owner. */
  readonly charge: Charge | undefined;
}

/** `counted`, or what has no room for it; then nothing is to be kept of the transaction. */
export type CountResult = 'counted' | 'containerFull' | 'ownerFull';

/** Expressions of a growth, for statements with more in them. */
export interface GrowthTerms {
  readonly container: string;
  readonly bytes: string;
  readonly files: string;
  readonly condition: string;
  /** With types: `$1::text`, `$2::bigint`. */
  readonly charge?: { readonly owner: string; readonly quota: string } | undefined;
}

/** Whether parts of a statement have counted a container. */
export const containerCounted = 'exists (select from noted union all select from counted)';

/**
 * Parts `noted` and `counted` of a statement, of which one has a row when the container has room. With an owner, `remembered`
 * writes down what is theirs where they have no quota.
 */
export function counting({ container, bytes, files, condition, charge }: GrowthTerms): string {
  const noted = charge
    ? `case when ${charge.quota} is null then ${charge.owner} end`
    : 'null::text';
  const parts = [
    `noted as (insert into ${growth} (container, bytes, files, owner)
       select ${container}, ${bytes}::bigint, ${files}::integer, ${noted} from ${containers} c
       where c."name" = ${container} and c."quota" is null and ${condition} returning 1)`,
    `counted as (update ${containers} set "usedBytes" = greatest(0, "usedBytes" + ${bytes}::bigint), "fileCount" = greatest(0, "fileCount" + ${files}::integer)
       where "name" = ${container} and "quota" is not null and ${condition}
         and (${bytes}::bigint <= 0 or "usedBytes" + ${bytes}::bigint + coalesce((select sum(g.bytes) from ${growth} g where g.container = ${container}), 0) <= "quota") returning 1)`,
  ];
  if (charge)
    parts.push(
      `remembered as (insert into ${growth} (bytes, files, owner)
         select ${bytes}::bigint, ${files}::integer, ${charge.owner} where ${charge.quota} is null and exists (select from counted))`,
    );
  return parts.join(', ');
}

/**
 * Part `charged`, which has a row when an owner with a quota has room. Everybody locks containers before owners, so the
 * condition has to look at the container first.
 */
export const charging = ({
  bytes,
  files,
  condition,
  charge,
}: Pick<GrowthTerms, 'bytes' | 'files' | 'condition'> &
  Required<Pick<GrowthTerms, 'charge'>>): string =>
  `charged as (insert into ${owners} as o (owner, bytes, files)
     select ${charge?.owner}, ${bytes}::bigint, ${files}::bigint
     where ${charge?.quota} is not null and (${bytes}::bigint <= 0 or ${bytes}::bigint <= ${charge?.quota}) and ${condition}
     on conflict (owner) do update set bytes = o.bytes + excluded.bytes, files = o.files + excluded.files
     where excluded.bytes <= 0 or o.bytes + excluded.bytes <= ${charge?.quota} returning 1)`;

export interface CountingParts {
  /** For a `with`. */
  readonly text: string;
  /** A `CountResult`. */
  readonly result: string;
}

/** All that counts a growth in a transaction; `condition`: an expression. */
export function countingParts(
  { container, bytes, files, charge }: Growth,
  next: (value: unknown) => string,
  condition = 'true',
): CountingParts {
  const terms = { container: next(container), bytes: next(bytes), files: next(files), condition };
  const verdict = (full: string) =>
    `case when not ${containerCounted} then 'containerFull' ${full} else 'counted' end`;
  if (!charge) return { text: counting(terms), result: verdict('') };
  const owner = { owner: `${next(charge.owner)}::text`, quota: `${next(charge.quota)}::bigint` };
  return {
    text: [
      counting({ ...terms, charge: owner }),
      charging({ ...terms, condition: containerCounted, charge: owner }),
    ].join(', '),
    result: verdict(
      `when ${owner.quota} is not null and not exists (select from charged) then 'ownerFull'`,
    ),
  };
}

/** Adds to the counters of a container and of an owner. */
export async function count(database: Queryable, grown: Growth): Promise<CountResult> {
  const values: unknown[] = [];
  const { text, result } = countingParts(grown, (value) => `$${values.push(value)}`);
  const found = await firstOf(
    database.query<{ result: CountResult }>(
      statement(`with ${text} select ${result} as result`, values),
    ),
  );
  return found?.result ?? 'containerFull';
}

/** The usage of one owner by files that were deleted. */
export interface UsageRelease {
  readonly owner: string;
  readonly bytes: number;
  readonly files: number;
  readonly hasQuota: boolean;
}

/** Subtracts it from the counters of owners, always in the same order, so that two deletions never deadlock. */
export async function releaseUsage(
  database: Queryable,
  gone: readonly UsageRelease[],
): Promise<void> {
  if (gone.length === 0) return;
  await database.query(
    statement(
      `with gone as (select * from unnest($1::text[], $2::bigint[], $3::bigint[], $4::boolean[]) as g(owner, bytes, files, has_quota)),
         noted as (insert into ${growth} (bytes, files, owner) select -bytes, -files, owner from gone where not has_quota)
       insert into ${owners} as o (owner, bytes, files) select owner, -bytes, -files from gone where has_quota order by owner
       on conflict (owner) do update set bytes = o.bytes + excluded.bytes, files = o.files + excluded.files`,
      [
        gone.map(({ owner }) => owner),
        gone.map(({ bytes }) => bytes),
        gone.map(({ files }) => files),
        gone.map(({ hasQuota }) => hasQuota),
      ],
    ),
  );
}

/**
 * Adds what was written down to the counters of its containers and owners: of one container, or all. Before anybody is told
 * them. Like everybody it locks containers first, by their names, then what was written down about them, then owners: who has
 * locked a container to change or delete it comes here too, and two of these may meet.
 */
export const addGrowth = (database: Queryable, container?: string): Promise<unknown> =>
  database.query(
    statement(
      `with held as materialized (select c."name" from ${containers} c
           where c."name" = $1 or ($1::text is null and exists (select from ${growth} g where g.container = c."name"))
           order by c."name" collate "C" for no key update),
         gone as (delete from ${growth} g where (select count(*) from held) >= 0
           and (g.container in (select "name" from held) or ($1::text is null and g.container is null)) returning container, bytes, files, owner),
         sums as (select container, sum(bytes)::bigint as bytes, sum(files)::integer as files from gone where container is not null group by container),
         used as (insert into ${owners} as o (owner, bytes, files)
           select owner, sum(bytes), sum(files) from gone where owner is not null group by owner order by owner
           on conflict (owner) do update set bytes = o.bytes + excluded.bytes, files = o.files + excluded.files)
       update ${containers} c set "usedBytes" = greatest(0, c."usedBytes" + s.bytes), "fileCount" = greatest(0, c."fileCount" + s.files)
       from sums s where c."name" = s.container`,
      [container ?? null],
    ),
  );

export interface Usage {
  readonly files: number;
  /** Bytes. */
  readonly size: number;
}

/** Bytes of the owner whose placeholder is given, with what is written down beside, as an expression. */
export const usedBytes = (owner: string): string =>
  `greatest(0, coalesce((select bytes from ${owners} where owner = ${owner}), 0)
    + coalesce((select sum(bytes) from ${growth} where owner = ${owner}), 0))`;

/** Of one owner, with what is written down beside. */
export const usageOf = async (database: Queryable, owner: string): Promise<Usage> =>
  (await firstOf(
    database.query<Usage>(
      statement(
        `select greatest(0, coalesce(sum(u.files), 0))::bigint as files, greatest(0, coalesce(sum(u.bytes), 0))::bigint as size
         from (select files, bytes from ${owners} where owner = $1 union all select files, bytes from ${growth} where owner = $1) u`,
        [owner],
      ),
    ),
  )) ?? { files: 0, size: 0 };

/** Owners by what they use. */
export const largestOwners = async (
  database: Queryable,
  limit: number,
): Promise<readonly (Usage & { readonly owner: string })[]> =>
  (
    await database.query<Usage & { readonly owner: string }>(
      statement(
        `select owner, greatest(0, files)::bigint as files, bytes as size from ${owners} where bytes > 0 order by bytes desc, owner limit $1::integer`,
        [limit],
      ),
    )
  ).rows;

/** What owners have, in the trash too, and what is counted; of one moment. */
const ownedNow = `
  select owner, sum(bytes)::bigint as bytes, sum(files)::bigint as files from (
    select "owner" as owner, "size" as bytes, 1 as files from "app"."File" where "generation" > 0 and "owner" is not null
    union all select owner, size, 1 from penstock.storage_trash where owner is not null
    union all select owner, -bytes, -files from ${owners}
    union all select owner, -bytes, -files from ${growth} where owner is not null) all_of_them
  group by owner having sum(bytes) <> 0 or sum(files) <> 0`;

/** Answers of how many owners the counters are wrong. `repair`: by the difference, which no change meanwhile makes wrong. */
export async function recountOwners(database: Queryable, repair: boolean): Promise<number> {
  const { rows } = await database.query<{ wrong: number }>({
    text: repair
      ? `with wrong as (${ownedNow}), mended as (insert into ${growth} (bytes, files, owner) select bytes, files, owner from wrong)
         select count(*)::integer as wrong from wrong`
      : `select count(*)::integer as wrong from (${ownedNow}) w`,
  });
  const wrong = rows[0]?.wrong ?? 0;
  if (repair && wrong > 0) await addGrowth(database);
  return wrong;
}
