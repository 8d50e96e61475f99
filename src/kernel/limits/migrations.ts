/** The table of budgets that outlive a process, and how a point is taken. */
import type { Migration } from '../database/migrate.ts';

/**
 * One row per bucket and key, gone when its window is over. `take_limits` goes through the claims in
 * order: each is one upsert under the lock of its row, so that claims at the same time count one after
 * the other and none is taken beyond the budget.
 */
const limits = `
  create table penstock.limits (
    bucket text not null,
    key text not null,
    used integer not null,
    ends_at timestamptz not null,
    primary key (bucket, key)
  );
  create index limits_end on penstock.limits (ends_at);

  create function penstock.take_limits(buckets text[], keys text[], most integer[], seconds float8[], stops boolean[])
  returns table (allowed boolean, taken integer, reset_ms float8) language plpgsql as $$
  declare ending timestamptz;
  begin
    for i in 1 .. cardinality(buckets) loop
      insert into penstock.limits as b (bucket, key, used, ends_at)
      values (buckets[i], keys[i], 1, clock_timestamp() + seconds[i] * interval '1 second')
      on conflict (bucket, key) do update set
        used = case when b.ends_at <= clock_timestamp() then 1 else b.used + 1 end,
        ends_at = case when b.ends_at <= clock_timestamp() then excluded.ends_at else b.ends_at end
      where b.ends_at <= clock_timestamp() or b.used < most[i]
      returning b.used, b.ends_at into taken, ending;
      allowed := found and taken <= most[i];
      if not found then
        select b.used, b.ends_at into taken, ending from penstock.limits b where b.bucket = buckets[i] and b.key = keys[i];
      end if;
      reset_ms := extract(epoch from ending - clock_timestamp()) * 1000;
      return next;
      if stops[i] and not allowed then return; end if;
    end loop;
  end $$;
`;

export const migrations: readonly Migration[] = [
  { id: '0001-limits', run: async (database) => void (await database.query({ text: limits })) },
];
