/** The stream of `GET /functions/logs/stream`, as a test reads it. */
import { testMasterKey } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

export interface ToldLine {
  readonly kind: string;
  readonly functionName?: string;
  readonly text?: string;
  readonly [fact: string]: unknown;
}

/** Listens from the moment at which this returns. */
export async function follow(
  { addresses }: { readonly addresses: { readonly admin: string } },
  query = '',
) {
  const end = new AbortController();
  const { body } = await fetch(`${addresses.admin}/functions/logs/stream${query}`, {
    headers: { masterkey: testMasterKey, accept: 'text/event-stream' },
    signal: end.signal,
  });
  const lines: ToldLine[] = [];
  const reading = (async () => {
    let text = '';
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = (text + chunk).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const [, kind, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
        if (kind !== undefined) lines.push({ kind, ...JSON.parse(data ?? '{}') });
      }
    }
  })().catch(() => undefined);
  const heard = (kind: string, functionName?: string): Promise<ToldLine> =>
    waitFor(
      () =>
        lines.find(
          (line) =>
            line.kind === kind &&
            (functionName === undefined || line.functionName === functionName),
        ),
      { what: `${kind} of ${functionName ?? 'a function'}` },
    );
  await heard('open');
  return {
    lines,
    heard,
    close() {
      end.abort();
      return reading;
    },
  };
}
