/** Traces through OpenTelemetry. Loaded only when a collector is configured. */

import {
  type Context,
  context,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import type { Settings } from '../settings/settings.ts';
import { withoutEnd } from '../text.ts';
import { version } from '../version.ts';
import type { ActiveSpan, SpanFacts, Tracing } from './tracing.ts';

/** Service name, sampling and headers are read from the environment by the library (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ...). */
export function openTracing({
  otlpEndpoint,
  traceContext,
}: Pick<Settings, 'otlpEndpoint' | 'traceContext'>): Tracing {
  const url = `${withoutEnd(otlpEndpoint ?? '', '/')}/v1/traces`;
  // The environment last: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': 'penstock', 'service.version': version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const provider = new NodeTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url }))],
  });
  provider.register();
  const tracer = provider.getTracer('penstock', version);

  const run = <T>(
    span: Span,
    parent: Context,
    work: (active: ActiveSpan) => Promise<T>,
  ): Promise<T> =>
    context.with(trace.setSpan(parent, span), async () => {
      try {
        return await work(activeOf(span));
      } catch (error) {
        // The kind alone: messages may hold what a user sent.
        span.setAttribute('error.type', error instanceof Error ? error.name : 'unknown');
        span.setStatus({ code: SpanStatusCode.ERROR });
        throw error;
      } finally {
        span.end();
      }
    });

  return {
    span(name, attributes, work) {
      const parent = context.active();
      // Work that nobody asked for (polling, heartbeats) would be a trace each.
      if (trace.getSpan(parent) === undefined) return work(nobody);
      const kind = 'db.system.name' in attributes ? SpanKind.CLIENT : SpanKind.INTERNAL;
      return run(
        tracer.startSpan(name, { kind, attributes: { ...attributes } }, parent),
        parent,
        work,
      );
    },
    request(name, headers, work) {
      const kind = SpanKind.SERVER;
      const remote = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, headers));
      if (remote && traceContext === 'continue') {
        const parent = trace.setSpanContext(ROOT_CONTEXT, remote);
        return run(tracer.startSpan(name, { kind }, parent), parent, work);
      }
      const links = remote ? [{ context: { ...remote, traceState: undefined } }] : [];
      return run(tracer.startSpan(name, { kind, links }, ROOT_CONTEXT), ROOT_CONTEXT, work);
    },
    async close() {
      await provider.shutdown();
      trace.disable();
      context.disable();
      propagation.disable();
    },
  };
}

const nobody: ActiveSpan = { add: () => undefined, rename: () => undefined, fail: () => undefined };

const activeOf = (span: Span): ActiveSpan => ({
  add: (facts: SpanFacts) => void span.setAttributes({ ...facts }),
  rename: (name) => void span.updateName(name),
  fail: () => void span.setStatus({ code: SpanStatusCode.ERROR }),
});
