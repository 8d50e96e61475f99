/** The stored configuration, past the platform. */
import type pg from 'pg';

/** Parts that are looked at. Absent keys have their default. */
export interface Stored {
  readonly storage?: {
    readonly provider?: string;
    readonly aws?: { readonly endpoint?: string; readonly region?: string };
    readonly aliyun?: { readonly region?: string };
    readonly google?: { readonly endpoint?: string };
  };
  readonly core?: { readonly env?: string };
  readonly admin?: {
    readonly hostUrl?: string;
    readonly cors?: { readonly enabled?: boolean; readonly origin?: string };
    readonly docs?: { readonly public?: boolean | string };
  };
  readonly authentication?: {
    readonly passkeys?: { readonly enabled?: boolean; readonly rpId?: string };
    readonly phoneAuthentication?: { readonly enabled?: boolean };
    readonly twoFa?: { readonly enabled?: boolean; readonly methods?: { readonly sms?: boolean } };
  };
  readonly router?: {
    readonly hostUrl?: string;
    readonly cors?: { readonly origin?: string };
    readonly docs?: { readonly public?: boolean };
    readonly graphql?: {
      readonly introspection?: boolean | string;
      readonly explorer?: boolean | string;
    };
  };
  readonly communications?: {
    readonly sms?: { readonly active?: boolean; readonly providerName?: string };
    readonly email?: {
      readonly active?: boolean;
      readonly transport?: string;
      readonly transportSettings?: {
        readonly smtp?: {
          readonly host?: string;
          readonly port?: number;
          readonly secure?: boolean;
        };
      };
    };
  };
}

export async function readStored(client: pg.Client): Promise<Stored> {
  const there = await client.query<{ there: boolean }>(
    `select to_regclass('penstock.config') is not null as there`,
  );
  if (!there.rows[0]?.there) return {};
  const { rows } = await client.query<{ name: string; config: unknown }>(
    'select name, config from penstock.config',
  );
  return Object.fromEntries(rows.map(({ name, config }) => [name, config])) as Stored;
}
