/** Configuration of webhooks. Times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless } from '../../kernel/config/config-definition.ts';

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

type Bounds = readonly [minimum: number, maximum: number];
const tuned = (value: number, [minimum, maximum]: Bounds, description: string) =>
  Type.Integer({ ...harmless, default: value, minimum, maximum, description });

/** Pauses before the tries after the first: about three days in all. */
const pauses = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  day,
];

export const webhooksConfig = defineConfig({
  schema: Type.Object({
    delivery: Type.Object({
      timeoutMs: tuned(15_000, [100, 60_000], 'How long a receiver may take to answer.'),
      pausesMs: Type.Array(Type.Integer({ minimum: 10, maximum: 7 * day }), {
        ...harmless,
        default: pauses,
        maxItems: 30,
        description:
          'Pauses before each further try of a delivery that failed. After the last it is given up and can be replayed.',
      }),
      concurrency: tuned(16, [1, 200], 'Deliveries that a node sends at a time.'),
      perEndpoint: tuned(4, [1, 50], 'Deliveries that a node sends to one endpoint at a time.'),
      maxBodyBytes: tuned(
        262_144,
        [1_024, 4_194_304],
        'Bytes of one delivery. A record that is larger is left out of it, and its id stays.',
      ),
      maxAnswerBytes: tuned(2_000, [0, 10_000], 'Characters of an answer that the timeline keeps.'),
    }),
    disableAfterMs: tuned(
      5 * day,
      [second, 90 * day],
      'An endpoint to which nothing could be delivered for so long is switched off when a delivery is given up.',
    ),
    allowInternal: Type.Boolean({
      default: false,
      description:
        'Whether endpoints may be on private addresses and without TLS (services in your own network).',
    }),
    retention: Type.Object({
      doneDays: tuned(7, [1, 365], 'Days for which deliveries that arrived are listed.'),
      deadDays: tuned(
        30,
        [1, 365],
        'Days for which deliveries that were given up can be replayed.',
      ),
    }),
  }),
});

export type WebhooksConfig = Static<typeof webhooksConfig.schema>;
