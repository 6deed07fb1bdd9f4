// Structured output, tools, stops and logprobs through the second generation of the gateway.
import { describeStructured } from './harness/structured-tests.ts';

describeStructured(2);
